"""Signatures of the addresses that the node gives out, with a key that is in the store."""

import base64
import hashlib
import hmac
import json
import os
import secrets
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from holdfast.errors import ConfigError
from holdfast.files.folders import Folder
from holdfast.node.http_server.refusals import Refusal

KEY_FILE: Final = "holdfast.links.key"
KEY_SIZE: Final = 32


class Signer:
    """Signs texts, and checks signatures. The key is made when it is first needed."""

    def __init__(self, root: Path) -> None:
        self._folder = Folder(root)
        self._lock = threading.Lock()
        self._key: bytes | None = None

    def sign(self, *parts: str) -> str:
        """Return the signature of `parts`. Other parts never have the same one."""
        text = json.dumps(parts, separators=(",", ":"))
        return hmac.new(self._read_key(), text.encode(), hashlib.sha256).hexdigest()

    def is_valid(self, signature: str, *parts: str) -> bool:
        """Return whether `sign` made the signature of `parts`."""
        given = signature.encode("utf-8", "replace")
        return hmac.compare_digest(given, self.sign(*parts).encode())

    def seal(self, purpose: str, value: Any) -> str:
        """Return `value` as text for an address, signed. Anybody can read it."""
        text = json.dumps(value, separators=(",", ":")).encode()
        token = base64.urlsafe_b64encode(text).decode().rstrip("=")
        return f"{token}.{self.sign(purpose, token)}"

    def unseal(self, purpose: str, sealed: str) -> Any:
        """Return what `seal` was given; raise a `Refusal` if it did not make `sealed`."""
        token, _, signature = sealed.rpartition(".")
        if not token.isascii() or not self.is_valid(signature, purpose, token):
            raise Refusal(403, "The signature of the address is not valid")
        return json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))

    def _read_key(self) -> bytes:
        with self._lock:
            if self._key is None:
                self._key = self._folder.read(KEY_FILE, KEY_SIZE + 1) or self._make_key()
            if len(self._key) != KEY_SIZE:
                path = self._folder.path / KEY_FILE
                self._key = None
                raise ConfigError(
                    f"{path} does not hold a key: remove it, and links become invalid"
                )
            return self._key

    def _make_key(self) -> bytes:
        """Make the key under a temporary name, so that under its own name it is complete."""
        temporary = f"{KEY_FILE}.{secrets.token_hex(8)}"
        descriptor = self._folder.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(KEY_SIZE))
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process was faster: its key counts
                (self._folder.path / KEY_FILE).hardlink_to(self._folder.path / temporary)
        finally:
            self._folder.remove(temporary)
        self._folder.sync()
        return self._folder.read(KEY_FILE, KEY_SIZE + 1) or b""
