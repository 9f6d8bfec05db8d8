"""The list of files of the service's v3 API: its filters, its pages by token, and its rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.pin_list import MAX_PAGE, OTHER, fits, other_version, read_id, read_time
from holdfast.protocol.status_errors import failure
from holdfast.records import Pin, PinFilter, value_text

if TYPE_CHECKING:
    from holdfast.protocol.pinata import PinataAPI

PENDING: Final = "pending"  # in place of the CID while the service still computes it


@dataclass(frozen=True, slots=True)
class PinataList:
    """The files of one network that are `wanted`, newest first: the cursor is the page's token.

    The service compares key-values for equality and knows no times, and it does not say whether it
    finds parts of names. So names and times are compared here.
    """

    api: "PinataAPI"
    wanted: PinFilter

    @property
    def token(self) -> Secret:
        """The credential, to be removed from error messages."""
        return self.api.token

    def request(self, count: int, cursor: str | None) -> Request:
        """Return the request for `count` files from `cursor` on."""
        query = {"limit": str(count), "order": "DESC"}
        if self.wanted.cid is not None:
            is_other = cursor is not None and cursor.startswith(OTHER)
            query["cid"] = (other_version(self.wanted.cid) or "") if is_other else self.wanted.cid
        for key, value in (self.wanted.keyvalues or {}).items():
            query[f"keyvalues[{key}]"] = value_text(value)
        if token := (cursor or "").removeprefix(OTHER):
            query["pageToken"] = token
        path = f"/files/{self.api.options.network}?{urlencode(query)}"
        return self.api.request("GET", path, max_reply=MAX_PAGE)

    def read(self, reply: Reply, _count: int, cursor: str | None) -> tuple[list[Pin], str | None]:
        """Return the files of a page whose CID is known, and the cursor of the next page."""
        data = self.api.read_data(reply)
        try:
            pins = [read_pin(row) for row in data["files"] if row["cid"] != PENDING]
            token = data.get("next_page_token") or ""
            if not isinstance(data["files"], list) or not isinstance(token, str):
                raise TypeError("files are a list, and a token is text")  # noqa: TRY301 - all are one error
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            words = "the provider's reply is not a list of files (data.files)"
            raise failure(words, reply, secret=self.token) from None
        if not (pins or token or cursor) and other_version(self.wanted.cid) is not None:
            return pins, OTHER
        since = self.wanted.since
        is_older = since is not None and pins and (pins[-1].created or 0) < since
        if not token or is_older:
            return pins, None
        return pins, (OTHER if cursor is not None and cursor.startswith(OTHER) else "") + token

    def before(self, cursor: str) -> None:
        """Return None: pages by token do not move when files are added or removed."""

    def matches(self, pin: Pin) -> bool:
        """Return whether `pin` is wanted."""
        name = (self.wanted.name or "").casefold()
        return name in pin.name.casefold() and fits(pin, self.wanted)


def read_pin(row: dict[str, Any]) -> Pin:
    """Return the pin of a file of the v3 API; raise a built-in error for anything else."""
    CID.parse(row["cid"])
    return Pin(
        id=read_id(row["id"]),
        cid=row["cid"],
        name=str(row.get("name") or ""),
        keyvalues=dict(row.get("keyvalues") or {}),
        size=int(row["size"]),
        files=int(row.get("number_of_files") or 1),
        type=str(row.get("mime_type") or ""),
        created=read_time(row["created_at"]),
    )
