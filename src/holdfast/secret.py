"""A credential that cannot slip out: masked in every text form, refused by pickle."""

import base64
import hmac
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn
from urllib.parse import quote, unquote

MASK = "********"
MIN_ECHO: Final = 8
"""Characters of a credential that is masked in replies: a shorter one is in many by chance."""

UNQUOTINGS: Final = 3  # how often a quoted address may have been quoted again
MAX_QUOTED: Final = 1 << 16  # bytes of a body that is searched for partly quoted credentials

# JSON may write any character as an escape; the first alternative is an escaped backslash.
_ESCAPE: Final = re.compile(rb"\\\\|\\/|\\u00([2-7][0-9a-fA-F])")
_KEPT_ESCAPES: Final = frozenset({b"\\\\", b"\\u0022", b"\\u005c", b"\\u005C"})


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
        self.__forms: frozenset[str] | None = None
        self.__lower_forms: frozenset[str] | None = None

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

    def forms(self) -> frozenset[str]:
        """The credential as it may stand in a reply: as it is, quoted, escaped or encoded.

        Nothing for a credential under `MIN_ECHO` characters.
        """
        if self.__forms is None:
            long = len(self.__value) >= MIN_ECHO
            self.__forms = _forms(self.__value) if long else frozenset()
        return self.__forms

    def lower_forms(self) -> frozenset[str]:
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
        if not self._is_in("\n".join((*fields, *fields.values()))):
            return {name.lower(): value for name, value in fields.items()}
        return {
            name.lower(): MASK if self._is_in(value) else value
            for name, value in fields.items()
            if not self._is_in(name)
        }

    def data(self, body: bytes) -> bytes:
        """A body that was read whole. One that hides a credential behind quoting is all masked."""
        # Its JSON escapes are resolved for the search: `\\u0065` is an `e`.
        plain = _ESCAPE.sub(_unescaped, body) if b"\\" in body else body
        clean = plain
        for secret in self._secrets:
            # The longest first, so that none is masked in part only.
            for form in sorted(secret.forms(), key=len, reverse=True):
                clean = clean.replace(form.encode(), MASK.encode())
        if b"%" in clean and len(clean) <= MAX_QUOTED and self._is_in(clean.decode("latin-1")):
            return MASK.encode()
        return body if clean == plain else clean

    def _is_in(self, text: str) -> bool:
        """Whether a credential stands in `text`, in any case, quoted or not."""
        for _ in range(UNQUOTINGS):
            lower = text.lower()
            if any(form in lower for secret in self._secrets for form in secret.lower_forms()):
                return True
            if "%" not in text:
                break
            text = unquote(text, "latin-1")
        return False


def _unescaped(match: re.Match[bytes]) -> bytes:
    """The character that a JSON escape stands for; quotes and backslashes stay escaped."""
    if match[0] in _KEPT_ESCAPES:
        return match[0]
    return b"/" if match[1] is None else bytes.fromhex(match[1].decode())


def _forms(value: str) -> frozenset[str]:
    codes = value.encode("utf-8", "surrogatepass")
    quoted = "".join(f"%{code:02x}" for code in codes)
    forms = {value, json.dumps(value)[1:-1], quote(codes, safe=""), quoted, quoted.upper()}
    forms |= {codes.hex(), codes.hex().upper()}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        forms.update(_base64(encode, codes, place) for place in range(3))
    return frozenset(forms)


def _base64(encode: Callable[[bytes], bytes], codes: bytes, place: int) -> str:
    """The characters that stand for `codes` alone where `place` bytes are encoded before them."""
    whole = encode(bytes(place) + codes).decode()
    return whole[-(-place * 8 // 6) : (place + len(codes)) * 8 // 6]
