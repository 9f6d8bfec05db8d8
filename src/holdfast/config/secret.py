"""A credential that is masked in every text form and cannot be pickled, and a mask for replies."""

import base64
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn
from urllib.parse import quote, unquote_to_bytes

MASK = "********"
MIN_ECHO: Final = 8
"""The shortest credential that is masked in replies; a shorter one is in many by chance."""

UNQUOTINGS: Final = 3  # how many times over an address may be quoted
MAX_QUOTED: Final = 1 << 16  # bytes that are searched for quoted credentials, which is slow


class Secret:
    """Holds a credential. Only `reveal` returns it.

    Example:
        >>> token = Secret("eyJhbGciOi")
        >>> print(token, repr(token), f"{token}")
        ******** Secret('********') ********
        >>> token == "eyJhbGciOi"
        True
    """

    __slots__ = ("__bare", "__forms", "__value")

    def __init__(self, value: str) -> None:
        self.__value = value
        self.__bare: Secret | None = None
        self.__forms: frozenset[bytes] | None = None

    def reveal(self) -> str:
        """Return the credential. Do not assign it to a local variable: tracebacks show those."""
        return self.__value

    def prefixed(self, prefix: str) -> "Secret":
        """Return the credential with `prefix` before it, such as ``Bearer``."""
        longer = Secret(prefix + self.__value)
        longer.__bare = self.bare
        return longer

    @property
    def bare(self) -> "Secret":
        """The credential without its prefix."""
        return self.__bare or self

    def scrub(self, text: str) -> str:
        """Return `text`, which came from outside, with the credential masked."""
        return text.replace(self.__value, MASK) if self.__value else text

    def forms(self) -> frozenset[bytes]:
        """Return the forms of the credential in a reply: unchanged, quoted, escaped or encoded.

        A credential of fewer than `MIN_ECHO` characters has none.
        """
        if self.__forms is None:
            long = len(self.__value) >= MIN_ECHO
            self.__forms = _forms(self.__value) if long else frozenset()
        return self.__forms

    def __repr__(self) -> str:
        return f"Secret('{MASK}')"

    def __str__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Secret):
            other = other.__value
        if not isinstance(other, str):
            return NotImplemented
        return hmac.compare_digest(self.__value.encode(), other.encode("utf-8", "surrogatepass"))

    def __hash__(self) -> int:
        return hash(self.__value)

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Secret":
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a token cannot be pickled: pass it again where it is needed")


class Scrubber:
    """Masks credentials that a peer sends back, before its reply is used.

    Example:
        >>> scrubber = Scrubber([Secret("eyJhbGciOi")])
        >>> scrubber.data(b'{"message": "eyJhbGciOi is bad"}')
        b'{"message": "******** is bad"}'
        >>> scrubber.headers({"Location": "/?token=eyJhbGci%4Fi"})
        {'location': '********'}
    """

    __slots__ = ("_forms", "_lower_forms")

    def __init__(self, secrets: Iterable[Secret | None]) -> None:
        bare = {secret.bare for secret in secrets if secret is not None}
        # The longest form first, so that none is masked only in part.
        forms = {form for secret in bare for form in secret.forms()}
        self._forms = tuple(sorted(forms, key=len, reverse=True))
        self._lower_forms = frozenset(form.lower() for form in forms)

    def headers(self, fields: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a reply with their names in lower case.

        A value that holds a credential is masked. A header whose name holds one is left out. Upper
        and lower case count as equal, because the host of an address is later put in lower case.
        """
        head = _bytes("\n".join((*fields, *fields.values())))
        if len(head) <= MAX_QUOTED and not self._is_in_quoted(head):  # almost always
            return {name.lower(): value for name, value in fields.items()}
        return {
            name.lower(): MASK if self._is_in_quoted(_bytes(value)) else value
            for name, value in fields.items()
            if not self._is_in_quoted(_bytes(name))
        }

    def data(self, body: bytes) -> bytes:
        """Return a whole body with the credentials masked.

        A body that holds a credential in the escapes of JSON or of addresses is masked as a whole.
        """
        for form in self._forms:
            body = body.replace(form, MASK.encode())
        if b"\\" in body:
            # It may be JSON. This codec resolves \\uXXXX and nothing else.
            text = body.replace(b"\\/", b"/").decode("raw_unicode_escape", "replace")
            if self._is_in(_bytes(text)):
                return MASK.encode()
        return MASK.encode() if self._is_in_quoted(body) else body

    def _is_in_quoted(self, data: bytes) -> bool:
        """Return whether `data` holds a credential, quoted or not. Large data is not unquoted."""
        for _ in range(UNQUOTINGS if len(data) <= MAX_QUOTED else 1):
            if self._is_in(data):
                return True
            if b"%" not in data:
                break
            data = unquote_to_bytes(data)
        return False

    def _is_in(self, data: bytes) -> bool:
        """Return whether `data` holds a credential, in upper or lower case."""
        lower = data.lower()
        return any(map(lower.__contains__, self._lower_forms))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _forms(value: str) -> frozenset[bytes]:
    codes = value.encode("utf-8", "surrogatepass")
    quoted = "".join(f"%{code:02x}" for code in codes)
    forms = {value, json.dumps(value)[1:-1], quote(codes, safe=""), quoted, quoted.upper()}
    forms |= {codes.hex(), codes.hex().upper()}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        forms.update(_base64(encode, codes, place) for place in range(3))
    return frozenset(form.encode("utf-8", "surrogatepass") for form in forms)


def _base64(encode: Callable[[bytes], bytes], codes: bytes, place: int) -> str:
    """Return the base64 characters that encode only `codes`, after `place` other bytes."""
    whole = encode(bytes(place) + codes).decode()
    return whole[-(-place * 8 // 6) : (place + len(codes)) * 8 // 6]
