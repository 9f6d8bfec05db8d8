"""The RPC API of Kubo: its requests, and how their replies are read.

An error after the first byte of a reply is only in its trailer, and some failures are an empty
reply. So a status of 200 means nothing here: every reply must hold the words that only success has.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.content.profiles import Profile
from holdfast.content.unixfs.layouts import not_what_was_sent
from holdfast.errors import NotFoundError, UnsupportedError
from holdfast.protocol import kubo_replies
from holdfast.protocol.http import RETRIED, Reply, Request, authorization
from holdfast.protocol.kubo_replies import KUBO_ERRORS
from holdfast.protocol.multipart import FileForm, FileSource, FormFile
from holdfast.protocol.pin_api import Exchange
from holdfast.protocol.pin_rows import other_version
from holdfast.records import Added, Pin, PinFilter, PinInfo

MAX_NAME: Final = 255  # bytes of a pin's name
MAX_PROGRESS: Final = 16 << 20  # bytes of the reply of a pin that takes long
PART_NAME: Final = "file"  # Kubo takes the slashes of a name for folders, and needs no name
ONLINE: Final = frozenset(RETRIED - {500})  # Kubo answers 500 to whatever it cannot do

# What the provider calls. Kubo allows ``version`` to every user who is in its settings.
WRITE_COMMANDS: Final = ("add", "dag/import", "pin/add", "pin/ls", "pin/rm")
READ_COMMANDS: Final = ("block/get", "cat", "dag/export")  # not needed where a gateway reads
FORBIDDEN: Final = 403
UNPINNED: Final = "bafkqaaa"  # the empty file, which is in its CID; without a CID all are listed

ArchiveOf = Callable[[list[CID]], FileSource]
"""Returns the archive of a directory; its header names the given roots."""


@dataclass(frozen=True, slots=True)
class KuboAPI:
    """The RPC API at `base_url`. `token` is a bearer token, or ``user:password``."""

    base_url: str
    token: Secret | None
    profile: Profile
    _credential: dict[str, Secret] = field(init=False, repr=False, compare=False)
    _layout: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_credential", authorization(self.token))
        object.__setattr__(self, "_layout", _layout_options(self.profile))

    def add(
        self,
        source: FileSource,
        info: PinInfo,
        on_sent: Callable[[int], None],
        *,
        cid: CID | None,
        whole: bool = False,
    ) -> Exchange[Added]:
        """Add a file, and pin it if `cid`, its CID, is known beforehand, or the user gave a name.

        To pin again replaces the name of a pin. So for a file whose CID is known only at its end,
        and a name that must not replace another, `keep` has to follow.

        With `whole`, the file is small and in memory: it is sent at once.
        """
        known = None if cid is None else (yield from self._find(str(cid)))
        name = _name_for(info, known)
        pins = cid is not None or info.given
        options = {**self._layout, "pin": _flag(pins)}
        if pins and name:
            options["pin-name"] = name
        reply = yield self._upload("add", options, source, on_sent, whole=whole)
        stored = kubo_replies.read_hash(self._checked(reply), self.token)
        if cid is not None and stored != cid:
            raise not_what_was_sent(stored)
        return Added(cid=str(stored), duplicate=None if cid is None else known is not None)

    def add_archive(
        self, cid: CID, archive: ArchiveOf, info: PinInfo, on_sent: Callable[[int], None]
    ) -> Exchange[Added]:
        """Import the archive of `cid`, and pin it.

        An archive with a root is pinned before Kubo can collect its blocks as garbage, but that
        removes the name of a pin that exists. For such a pin, the archive names no root.
        """
        known = yield from self._find(str(cid))
        roots = [] if known is not None else [cid]
        yield from self._import(archive(roots), roots, on_sent)
        return (yield from self._name_import(cid, info, known))

    def import_archive(self, cid: CID, archive: FileSource, info: PinInfo) -> Exchange[Added]:
        """Import an archive whose only root is `cid`, and pin it.

        Content that is pinned is complete already, so it is not sent again.
        """
        known = yield from self._find(str(cid))
        if known is None:
            yield from self._import(archive, [cid], _ignore_sent)
        return (yield from self._name_import(cid, info, known))

    def _import(
        self, archive: FileSource, roots: list[CID], on_sent: Callable[[int], None]
    ) -> Exchange[None]:
        options = {"stats": "true", "pin-roots": "true"}
        reply = yield self._upload("dag/import", options, archive, on_sent)
        kubo_replies.check_import(self._checked(reply), roots, self.token)

    def _name_import(self, cid: CID, info: PinInfo, known: Pin | None) -> Exchange[Added]:
        """Give the pin of an import its name. `known` is the pin that was there before."""
        name = _name_for(info, known)
        if name != ("" if known is None else known.name):
            yield from self._pin(str(cid), name, timeout=None)
        return Added(cid=str(cid), duplicate=known is not None)

    def keep(
        self, cid: str, info: PinInfo, *, timeout: float | None = None
    ) -> Exchange[tuple[Pin, bool]]:
        """Pin `cid`; return the pin, and whether it was pinned before.

        Kubo may fetch the content from the network for `timeout` seconds; None is not at all.
        """
        known = yield from self.find(cid)
        name = _name_for(info, known)
        found = cid if known is None else known.cid
        if known is None or name != known.name:
            yield from self._pin(found, name, timeout=timeout)
        return kubo_replies.make_pin(found, name), known is not None

    def update(
        self, cid: str, name: str | None, keyvalues: Mapping[str, Any] | None
    ) -> Exchange[Pin]:
        """Change the name of a pin."""
        info = PinInfo(name=name or "", keyvalues=keyvalues or {}, given=name is not None)
        check_info(info)
        known = yield from self.find(cid)
        if known is None:
            raise NotFoundError(f"{cid} is not pinned: pin it, and give it a name then")
        pin, _ = yield from self.keep(known.cid, info)
        return pin

    def _pin(self, cid: str, name: str, *, timeout: float | None) -> Exchange[None]:
        options = {"arg": cid, **({"name": name} if name else {}), **_reach(timeout)}
        options["progress"] = "true"  # so that a pin that takes long is not taken for a stall
        reply = yield self.request("pin/add", options, max_reply=MAX_PROGRESS)
        kubo_replies.check_pins(self._checked(reply, cid), cid, self.token)

    def unpin(self, cid: str) -> Exchange[None]:
        """Remove the pin of `cid`.

        If the reply to an earlier attempt was lost, the pin may be gone already: then "not pinned"
        is success.
        """
        reply = yield self.request("pin/rm", {"arg": cid, "recursive": "true"})
        if not (reply.reply_lost and KUBO_ERRORS.says_not_pinned(reply)):
            kubo_replies.check_pins(self._checked(reply), cid, self.token)

    def find(self, cid: str) -> Exchange[Pin | None]:
        """Return the pin of `cid`, or of the other version of it, which names the same content."""
        found = yield from self._find(cid)
        other = other_version(cid) if found is None else None
        return found if other is None else (yield from self._find(other))

    def _find(self, cid: str) -> Exchange[Pin | None]:
        reply = yield self.request("pin/ls", {"arg": cid, "type": "recursive", "names": "true"})
        kubo_replies.check_age(reply, self.token)
        if KUBO_ERRORS.says_not_pinned(reply):
            return None
        return kubo_replies.read_pin(self._checked(reply), self.token)

    def check_credentials(self, commands: Iterable[str]) -> Exchange[None]:
        """Return if Kubo is new enough, and accepts the token for all `commands`."""
        reply = yield self.request("version")
        kubo_replies.check_version(self._checked(reply), self.token)
        if self.token is not None:
            yield from self._check_rights(commands)

    def _check_rights(self, commands: Iterable[str]) -> Exchange[None]:
        """Raise PermissionDeniedError if the token is valid, but not for all `commands`.

        Each is sent without the arguments that it needs. So Kubo does nothing: it refuses the
        token (403), or else the call (400; 500 for ``pin/ls``, whose CID is not pinned).
        """
        lacking: list[str] = []
        refused: Reply | None = None
        for command in commands:
            options = {"arg": UNPINNED, "type": "recursive"} if command == "pin/ls" else {}
            reply = yield self.request(command, options)
            if reply.status == FORBIDDEN:
                lacking.append(command)
                refused = reply
            elif reply.status not in {200, 400, 500}:
                raise self.error(reply)
        if refused is not None:
            raise kubo_replies.lacks_rights(refused, lacking, self.token)

    def addresses(self) -> Exchange[list[str]]:
        """Return the public addresses of the node on the network."""
        reply = yield self.request("id")
        return kubo_replies.read_addresses(self._checked(reply))

    def list_request(self, wanted: PinFilter) -> Request:
        """Return the request for a stream of pins, which `KuboPinLines` reads."""
        options = {"type": "recursive", "names": "true", "stream": "true"}
        return self.request("pin/ls", {**options, **({"name": wanted.name} if wanted.name else {})})

    def block_request(self, cid: CID, timeout: float | None) -> Request:
        """Return the request for a block. None for `timeout` is not to ask the network."""
        return self.request("block/get", {"arg": str(cid), **_reach(timeout)})

    def cat_request(self, cid: CID) -> Request:
        """Return the request for the plain bytes of a file, as far as Kubo has them."""
        return self.request("cat", {"arg": str(cid), **_reach(None)})

    def export_request(self, cid: CID) -> Request:
        """Return the request for an archive of the blocks below `cid` that Kubo has, each once."""
        return self.request("dag/export", {"arg": str(cid), **_reach(None)})

    def error(self, reply: Reply, cid: str | None = None) -> Exception:
        """Return the error of a reply that is not a success."""
        return kubo_replies.reply_error(reply, self.token, cid)

    def _checked(self, reply: Reply, cid: str | None = None) -> Reply:
        """Return `reply` if it is a success so far; raise its error otherwise."""
        if not reply.ok:
            raise self.error(reply, cid)
        if reply.stream_error:  # Kubo had begun its reply, so that its error is in the trailer
            body = reply.stream_error.encode()
            raise self.error(Reply(500, {"content-type": "text/plain"}, body), cid)
        kubo_replies.check_age(reply, self.token)
        return reply

    def _upload(
        self,
        command: str,
        options: Mapping[str, str],
        source: FileSource,
        on_sent: Callable[[int], None],
        *,
        whole: bool = False,
    ) -> Request:
        form = FileForm([FormFile(PART_NAME, "", source)], fields={})
        return self.request(command, options, **form.sending(on_sent, whole=whole))

    def request(
        self,
        command: str,
        options: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Request:
        """Return a request for a command."""
        query = urlencode(options or {}, errors="replace")
        fields: dict[str, str | Secret] = {**(headers or {}), **self._credential}
        url = f"{self.base_url}/api/v0/{command}" + (f"?{query}" if query else "")
        return Request("POST", url, fields, retried=ONLINE, **more)


def check_info(info: PinInfo) -> None:
    """Raise `UnsupportedError` for what Kubo cannot keep of a pin."""
    if info.keyvalues:
        raise UnsupportedError("Kubo keeps no key-values; leave keyvalues out")
    if info.given and len(info.name.encode(errors="replace")) > MAX_NAME:
        raise UnsupportedError(f"Kubo keeps names of up to {MAX_NAME} bytes; shorten the name")


def check_filter(wanted: PinFilter) -> None:
    """Raise `UnsupportedError` for a filter that Kubo does not have."""
    if wanted.keyvalues:
        raise UnsupportedError("Kubo keeps no key-values; find pins by name or CID")
    if wanted.since is not None or wanted.until is not None:
        raise UnsupportedError("Kubo keeps no times of pins; leave since and until out")


def _name_for(info: PinInfo, known: Pin | None) -> str:
    """Return the name of a pin: the old one, unless there is none or the user gave another."""
    if known is not None and not info.given:
        return known.name
    return info.name.encode(errors="replace")[:MAX_NAME].decode(errors="ignore")


def _reach(timeout: float | None) -> dict[str, str]:
    """Return the options that limit how long Kubo asks the network."""
    return {"offline": "true"} if timeout is None else {"timeout": f"{max(timeout, 0.001):.3f}s"}


def _layout_options(profile: Profile) -> dict[str, str]:
    """Return all options of `add` for a layout; what is left out comes from Kubo's settings."""
    off = ("trickle", "inline", "nocopy", "fscache", "wrap-with-directory")
    return {
        "cid-version": str(profile.cid_version),
        "raw-leaves": _flag(profile.raw_leaves),
        "chunker": f"size-{profile.chunk_size}",
        "max-file-links": str(profile.width),
        "hash": "sha2-256",
        **dict.fromkeys((*off, "preserve-mode", "preserve-mtime", "progress"), "false"),
    }


def _flag(value: bool) -> str:  # noqa: FBT001 - an option's value
    return "true" if value else "false"


def _ignore_sent(_sent: int) -> None:
    """Do nothing: the caller asks for no progress."""
