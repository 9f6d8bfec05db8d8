"""A credential that cannot slip out: masked in every text form, refused by pickle."""

import base64
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn
from urllib.parse import quote, unquote_to_bytes

MASK = "********"
MIN_ECHO: Final = 8
"""Characters of a credential that is masked in replies: a shorter one is in many by chance."""

UNQUOTINGS: Final = 3  # how often a quoted address may have been quoted again
MAX_QUOTED: Final = 1 << 16  # bytes that are searched for quoted credentials: it takes time


class Secret:
    """Holds a credential; only `reveal` gives it away.

    Example:
        >>> token = Secret("eyJhbGciOi")
        >>> print(token, repr(token), f"{token}")
        ******** Secret('********') ********
        >>> token == "eyJhbGciOi"
        True
    """

    __slots__ = ("__bare", "__forms", "__lower_forms", "__value")

    def __init__(self, value: str) -> None:
        self.__value = value
        self.__bare: Secret | None = None
        self.__forms: frozenset[bytes] | None = None
        self.__lower_forms: frozenset[bytes] | None = None

    def reveal(self) -> str:
        """The credential itself. Do not bind it to a local variable: tracebacks show those."""
        return self.__value

    def prefixed(self, prefix: str) -> "Secret":
        """The same credential behind `prefix`, as ``Bearer`` goes before a token."""
        longer = Secret(prefix + self.__value)
        longer.__bare = self.bare
        return longer

    @property
    def bare(self) -> "Secret":
        """The credential without its prefix."""
        return self.__bare or self

    def scrub(self, text: str) -> str:
        """`text` without the credential, for words that came from outside."""
        return text.replace(self.__value, MASK) if self.__value else text

    def forms(self) -> frozenset[bytes]:
        """The credential as it may stand in a reply: as it is, quoted, escaped or encoded.

        Nothing for a credential under `MIN_ECHO` characters.
        """
        if self.__forms is None:
            long = len(self.__value) >= MIN_ECHO
            self.__forms = _forms(self.__value) if long else frozenset()
        return self.__forms

    def lower_forms(self) -> frozenset[bytes]:
        """The same in lower case."""
        if self.__lower_forms is None:
            self.__lower_forms = frozenset(form.lower() for form in self.forms())
        return self.__lower_forms

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
        raise TypeError("a token cannot be pickled; pass it anew where it is needed")


class Scrubber:
    """Masks credentials that a peer echoes, before its reply becomes a value of ours.

    Example:
        >>> scrubber = Scrubber([Secret("eyJhbGciOi")])
        >>> scrubber.data(b'{"message": "eyJhbGciOi is bad"}')
        b'{"message": "******** is bad"}'
        >>> scrubber.headers({"Location": "/?token=eyJhbGci%4Fi"})
        {'location': '********'}
    """

    __slots__ = ("_secrets",)

    def __init__(self, secrets: Iterable[Secret | None]) -> None:
        self._secrets = tuple({secret.bare for secret in secrets if secret is not None})

    def headers(self, fields: Mapping[str, str]) -> dict[str, str]:
        """The fields of a head, their names in lower case.

        A value that holds a credential is masked; a field whose name does is left out. Case does
        not count here: the host of an address is written in lower case later.
        """
        head = _bytes("\n".join((*fields, *fields.values())))
        if len(head) <= MAX_QUOTED and not self._is_in_quoted(head):  # as good as always
            return {name.lower(): value for name, value in fields.items()}
        return {
            name.lower(): MASK if self._is_in_quoted(_bytes(value)) else value
            for name, value in fields.items()
            if not self._is_in_quoted(_bytes(name))
        }

    def data(self, body: bytes) -> bytes:
        """A body that was read whole.

        One that hides a credential behind the escapes of JSON or of addresses is masked as a whole.
        """
        for secret in self._secrets:
            # The longest first, so that none is masked in part only.
            for form in sorted(secret.forms(), key=len, reverse=True):
                body = body.replace(form, MASK.encode())
        if b"\\" in body:
            # Whether it is JSON is not known yet. This codec resolves \\uXXXX and nothing else.
            text = body.replace(b"\\/", b"/").decode("raw_unicode_escape", "replace")
            if self._is_in(_bytes(text)):
                return MASK.encode()
        return MASK.encode() if self._is_in_quoted(body) else body

    def _is_in_quoted(self, data: bytes) -> bool:
        """Whether a credential stands in `data`, quoted or not. Much data is searched as it is."""
        for _ in range(UNQUOTINGS if len(data) <= MAX_QUOTED else 1):
            if self._is_in(data):
                return True
            if b"%" not in data:
                break
            data = unquote_to_bytes(data)
        return False

    def _is_in(self, data: bytes) -> bool:
        """Whether a credential stands in `data`, in any case."""
        lower = data.lower()
        return any(form in lower for secret in self._secrets for form in secret.lower_forms())


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
    """The characters that stand for `codes` alone where `place` bytes are encoded before them."""
    whole = encode(bytes(place) + codes).decode()
    return whole[-(-place * 8 // 6) : (place + len(codes)) * 8 // 6]
