"""Which instances of the file system are shared, and that none of them shows a secret.

fsspec keeps instances and returns the same one for the same options. It makes a key from the text
of the options, and keeps the options themselves for pickles.
"""

import hashlib
import os
import secrets
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

from fsspec.config import apply_config

from holdfast.config.fields import FIELDS, wrap_secret
from holdfast.config.secret import Secret
from holdfast.errors import ConfigError
from holdfast.filesystem.base_classes import FileSystemType

FSSPEC_OPTIONS: Final = {
    *("asynchronous", "batch_size", "listings_expiry_time", "loop", "max_paths"),
    *("skip_instance_cache", "use_listings_cache"),
}
"""The options of fsspec itself. All others are fields of `ClientConfig`."""

_SALT: Final = secrets.token_bytes(16)


class OptionSecret(Secret):
    """A secret among the options. Its `repr`, of which fsspec makes the key, is a digest.

    So instances with different secrets have different keys. The digest is salted: it is another one
    in each process, and nobody can try secrets against it.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Secret('{_digest(self.reveal())}')"


class SecretOptions(FileSystemType):
    """The class of the class: wraps the secrets among the options before fsspec sees them."""

    @property
    def environment_key(cls) -> str:  # noqa: N805 - of a class
        """A text that is different for other ``HOLDFAST_*`` variables, and does not show them."""
        variables = sorted(os.environ.items())
        return _digest([pair for pair in variables if pair[0].startswith("HOLDFAST_")])

    def __call__(cls, *args: Any, **options: Any) -> Any:  # noqa: N805 - of a class
        """Return an instance for `options`, in whatever order they are given."""
        options = {
            name: value if name in FSSPEC_OPTIONS else _wrap(wrap_secret(name, value))
            for name, value in sorted(apply_config(cls, options).items())
        }
        instance = super().__call__(*args, **options)
        if secret_names(options):
            _WITH_SECRETS[instance._fs_token] = instance  # noqa: SLF001 - of fsspec
        return instance


_WITH_SECRETS: Final[WeakValueDictionary[str, Any]] = WeakValueDictionary()
"""The instances of this process that have a secret, by the keys that are in their pickles."""


def restore(cls: Any, key: str, options: Mapping[str, Any], secret_fields: list[str]) -> Any:
    """Return an instance from its pickle, which has no secret.

    In the process that made the pickle, it is the same instance. In any other, the secrets are read
    from the environment.
    """
    original = _WITH_SECRETS.get(key)
    if original is not None:
        return cls(**original.storage_options)  # a forked process needs an instance of its own
    variables = [FIELDS[name].variable for name in secret_fields]
    if missing := [name for name in variables if not os.environ.get(name)]:
        raise ConfigError(
            f"a token is never pickled: set {' and '.join(missing)} in the environment of the "
            "process that uses the file system, such as a worker of Dask"
        )
    return cls(**options)


def secret_names(options: Mapping[str, Any]) -> list[str]:
    """Return the names of those `options`, which are wrapped, that are or have a secret."""
    values = {
        name: value if isinstance(value, tuple) else (value,) for name, value in options.items()
    }
    return [name for name in values if any(isinstance(value, Secret) for value in values[name])]


def _wrap(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_wrap, value))
    return OptionSecret(value.reveal()) if isinstance(value, Secret) else value


def _digest(value: object) -> str:
    return hashlib.sha256(_SALT + repr(value).encode(errors="surrogatepass")).hexdigest()
