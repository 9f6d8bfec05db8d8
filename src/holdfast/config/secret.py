"""A credential that is masked in every text form and cannot be pickled, and a mask for replies."""

import base64
import hmac
import json
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn
from urllib.parse import quote, unquote_to_bytes

MASK = "********"
MIN_ECHO: Final = 8
"""The shortest credential that is masked in replies; a shorter one is in many by chance."""

UNQUOTINGS: Final = 3  # how many times over an address may be quoted
PERCENT, BACKSLASH = b"%\\"
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

    __slots__ = ("__bare", "__lower_forms", "__value")

    def __init__(self, value: str) -> None:
        self.__value = value
        self.__bare: Secret | None = None
        self.__lower_forms: tuple[bytes, ...] | None = None

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

    def is_in(self, lower: bytes) -> bool:
        """Return whether `lower`, bytes of a reply in lower case, hold the credential.

        All its forms are searched: unchanged, quoted, escaped and encoded. A credential of fewer
        than `MIN_ECHO` characters is in no reply.
        """
        if self.__lower_forms is None:
            self.__lower_forms = tuple({form.lower() for form in self.__forms()})
        # This runs for each reply. `any` takes twice as long, and so does `form in lower`, which
        # first tries `form` as a number.
        for form in self.__lower_forms:  # noqa: SIM110
            if lower.find(form) >= 0:
                return True
        return False

    def mask(self, body: bytes) -> bytes:
        """Return a reply's `body` with the credential masked in all its forms."""
        # The longest form first, so that none is masked only in part.
        for form in sorted(self.__forms(), key=len, reverse=True):
            body = body.replace(form, MASK.encode())
        return body

    def __forms(self) -> frozenset[bytes]:
        return _forms(self.__value) if len(self.__value) >= MIN_ECHO else frozenset()

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
        >>> scrubber.headers([("Location", "/?token=eyJhbGci%4Fi")])
        {'location': '********'}
    """

    __slots__ = ("_secrets",)

    def __init__(self, secrets: Iterable[Secret | None]) -> None:
        self._secrets = tuple({secret.bare for secret in secrets if secret is not None})

    def headers(self, fields: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return the headers of a reply with their names in lower case. Equal names are joined.

        A value that holds a credential is masked. A header whose name holds one is left out. Upper
        and lower case count as equal, because the host of an address is later put in lower case.
        """
        headers: dict[str, str] = {}
        for name, value in fields:
            lower = name.lower()
            headers[lower] = f"{headers[lower]}, {value}" if lower in headers else value
        head = _bytes("\n".join((*headers, *headers.values())))
        if len(head) <= MAX_QUOTED and not self._is_in_quoted(head):  # almost always
            return headers
        return {
            name: MASK if self._is_in_quoted(_bytes(value)) else value
            for name, value in headers.items()
            if not self._is_in_quoted(_bytes(name))
        }

    def data(self, body: bytes) -> bytes:
        """Return a whole body with the credentials masked.

        A body that holds a credential in the escapes of JSON or of addresses is masked as a whole.
        """
        if self._is_in(body):
            for secret in self._secrets:
                body = secret.mask(body)
        elif PERCENT not in body and BACKSLASH not in body:  # almost always
            return body
        if BACKSLASH in body:
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
            if PERCENT not in data:
                break
            data = unquote_to_bytes(data)
        return False

    def _is_in(self, data: bytes) -> bool:
        """Return whether `data` holds a credential, in upper or lower case."""
        lower = data.lower()
        for secret in self._secrets:  # noqa: SIM110 - faster than `any`, for each reply
            if secret.is_in(lower):
                return True
        return False


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
