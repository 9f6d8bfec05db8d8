"""Which instances of the file system are shared, and that none of them shows a secret.

fsspec keeps instances and returns the same one for the same options. It makes a key from the text
of the options, and keeps the options themselves for pickles.
"""

import hashlib
import os
import secrets
from typing import Any, Final

from fsspec.config import apply_config

from holdfast.config.secret import Secret
from holdfast.config.wrapping import wrap_secret
from holdfast.filesystem.base_classes import FileSystemType

FSSPEC_OPTIONS: Final = frozenset(
    {
        "asynchronous",
        "batch_size",
        "listings_expiry_time",
        "loop",
        "max_paths",
        "skip_instance_cache",
        "use_listings_cache",
    }
)
"""The options of fsspec itself. All others are fields of `ClientConfig`."""

_SALT: Final = secrets.token_bytes(16)


class SecretOptions(FileSystemType):
    """The class of the class: wraps the secrets among the options before fsspec sees them.

    An instance with a secret is not shared, because all secrets look the same in the key.
    """

    @property
    def environment_key(cls) -> str:  # noqa: N805 - of a class
        """A text that is different for other ``HOLDFAST_*`` variables, and does not show them."""
        values = [each for each in sorted(os.environ.items()) if each[0].startswith("HOLDFAST_")]
        return hashlib.sha256(_SALT + repr(values).encode()).hexdigest()

    def __call__(cls, *args: Any, **options: Any) -> Any:  # noqa: N805 - of a class
        """Return an instance for `options`."""
        options = {
            name: value if name in FSSPEC_OPTIONS else wrap_secret(name, value)
            for name, value in apply_config(cls, options).items()
        }
        if not has_secret(options):
            return super().__call__(*args, **options)
        instance = super().__call__(*args, **{**options, "skip_instance_cache": True})
        instance._fs_token_ = secrets.token_hex(32)
        return instance


def has_secret(options: dict[str, Any]) -> bool:
    """Return whether a secret is among `options`, which are wrapped."""
    return any(
        isinstance(each, Secret)
        for value in options.values()
        for each in (value if isinstance(value, tuple) else (value,))
    )
