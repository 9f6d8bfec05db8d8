"""A credential that cannot slip out: masked in every text form, refused by pickle."""

import hmac
from typing import Any, NoReturn

MASK = "********"


class Secret:
    """Holds a credential; only `reveal` gives it away.

    Example:
        >>> token = Secret("eyJhbGciOi")
        >>> print(token, repr(token), f"{token}")
        ******** Secret('********') ********
        >>> token == "eyJhbGciOi"
        True
    """

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        self.__value = value

    def reveal(self) -> str:
        """The credential itself. Do not bind it to a local variable: tracebacks show those."""
        return self.__value

    def prefixed(self, prefix: str) -> "Secret":
        """The same credential behind `prefix`, as ``Bearer`` goes before a token."""
        return Secret(prefix + self.__value)

    def scrub(self, text: str) -> str:
        """`text` without the credential, for words that came from outside."""
        return text.replace(self.__value, MASK) if self.__value else text

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
