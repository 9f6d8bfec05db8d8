"""References, which users pass for "a CID": a CID, a path under it, or a URL that contains one."""

import re
from typing import Self
from urllib.parse import quote, unquote

from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError
from holdfast.hints import advise
from holdfast.single_line import short

_NATIVE = re.compile(r"^ipfs://(?P<rest>.*)$", re.IGNORECASE | re.DOTALL)
_SUBDOMAIN = re.compile(
    r"^https?://(?P<cid>[^./?#]+)\.ipfs\.[^/?#]+(?P<rest>.*)$", re.IGNORECASE | re.DOTALL
)
MAX_REFERENCE = 8192


class Reference(str):
    """The CID and path for a gateway's URL, with every name percent-encoded.

    It is a string, so that it can be passed on as text without being parsed again. A copy, and what
    is pickled, is a plain string.

    Attributes:
        text: The CID as it was given.
        cid: The CID.
        path: The names of the path under it.
        target: The CID at the end of the path, if it is known: without a path, `cid` itself.
    """

    __slots__ = ("cid", "path", "target", "text")

    cid: CID
    path: tuple[str, ...]
    target: CID | None
    text: str

    def __new__(
        cls, text: str, cid: CID, path: tuple[str, ...] = (), target: CID | None = None
    ) -> Self:
        """Return the reference to `path` under `cid`, which was given as `text`.

        `target` is the CID that verified directories have shown to be at the end of `path`.
        """
        whole = "/".join((text, *(quote(name, safe="") for name in path))) if path else text
        reference = super().__new__(cls, whole)
        reference.text, reference.cid, reference.path = text, cid, path
        reference.target = target if path else cid
        return reference

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)

    @classmethod
    def parse(cls, cid_or_url: object) -> "Reference":
        """Return the reference in `cid_or_url` by the spec's rules, or raise `InvalidCIDError`.

        White space around it, the query, the fragment and trailing slashes are removed. The CID is
        what follows the first ``/ipfs/``, ``ipfs://``, or the subdomain in
        ``https://CID.ipfs.host``. Names in a path are percent-decoded. Only a valid CID and plain
        names are accepted, so that no input can change the rest of a request.

        Example:
            >>> str(Reference.parse(" https://ipfs.io/ipfs/bafkqaaa/a%20b.json?download=1 "))
            'bafkqaaa/a%20b.json'
        """
        if not isinstance(cid_or_url, str):
            kind = type(cid_or_url).__name__
            error = InvalidCIDError(reason=f"a CID is a string, not {kind}")
            if hasattr(cid_or_url, "cid"):  # a record, a pin or an entry
                error.add_note(f"give the CID of the {kind}: its attribute `cid`")
            raise error
        if len(cid_or_url) > MAX_REFERENCE:
            reason = f"longer than {MAX_REFERENCE} characters"
            raise InvalidCIDError(reason=reason, value=cid_or_url[:MAX_REFERENCE])
        if isinstance(cid_or_url, Reference):
            return cid_or_url
        if cid_or_url.isalnum():  # a CID and nothing else
            return cls(cid_or_url, CID.parse(cid_or_url))
        # Remove the query first: an ``/ipfs/`` inside it does not count.
        address = re.split(r"[?#]", cid_or_url.strip(), maxsplit=1)[0]
        text, *names = _after_ipfs(address).rstrip("/").split("/")
        try:
            return cls(text, CID.parse(text), tuple(map(_name, names)))
        except InvalidCIDError as error:
            is_ipns = re.search(r"(^|/)ipns[:/]|\.ipns\.", address)
            reason = "IPNS names are not resolved; give a CID" if is_ipns else error.reason
            wrong = InvalidCIDError(reason=reason, value=cid_or_url)
            notes = "find the CID with `client.pins(name=…)`", "find the CID with `holdfast list`"
            raise (advise(wrong, *notes) if cid_or_url.startswith("name:") else wrong) from None

    @classmethod
    def parse_cid(cls, cid_or_url: object) -> str:
        """Return the CID in `cid_or_url`; raise `InvalidCIDError` if a path follows it."""
        reference = cls.parse(cid_or_url)
        if reference.path:
            reason = "a path inside a CID cannot be used here, only a CID"
            error = InvalidCIDError(reason=reason, value=reference)
            raise advise(error, "`stat` returns its CID", "`holdfast info` shows its CID")
        return reference.text


def _after_ipfs(text: str) -> str:
    """Return the part of `text` that begins with the CID."""
    _, separator, rest = text.partition("/ipfs/")
    if separator:
        return rest
    if match := _NATIVE.match(text):
        return match["rest"]
    if match := _SUBDOMAIN.match(text):
        return match["cid"] + match["rest"]
    return text


def _name(quoted: str) -> str:
    """Return one name of the path, percent-decoded; refuse names that could change the path."""
    try:
        name = unquote(quoted, errors="strict")
        name.encode()
    except UnicodeError:
        raise InvalidCIDError(reason="the path is not UTF-8") from None
    if name in {"", ".", ".."} or "/" in name or any(c < " " or c == "\x7f" for c in name):
        raise InvalidCIDError(reason=f"{short(name)!r} is not a valid path segment")
    return name
