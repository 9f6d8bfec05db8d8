"""The RPC API of Kubo: its requests, and how their replies are read.

An error after the first byte of a reply is only in its trailer, and some failures are an empty
reply. So a status of 200 means nothing here: every reply must hold the words that only success has.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.content.profiles import Profile
from holdfast.content.unixfs.layouts import not_what_was_sent
from holdfast.errors import (
    AuthenticationError,
    ClientError,
    InvalidCIDError,
    NotFoundError,
    ProviderError,
    RateLimitError,
    RequestTimeoutError,
    UnsupportedError,
)
from holdfast.hints import advise
from holdfast.protocol import json_text
from holdfast.protocol.host_privacy import WORLD, privacy
from holdfast.protocol.http import RETRIED, Reply, Request, authorization
from holdfast.protocol.json_text import text_at
from holdfast.protocol.multipart import FileForm, FileSource, FormFile
from holdfast.protocol.pin_api import Exchange, PinLines, other_version
from holdfast.protocol.status_errors import ErrorTable, failure, provider_error
from holdfast.records import Added, Pin, PinFilter, PinInfo

OLDEST: Final = (0, 37)  # the first with pin-name for `add`; max-file-links came with 0.35
SERVER: Final = re.compile(r"kubo/(\d+)\.(\d+)\.")
VERSION: Final = re.compile(r"(\d+)\.(\d+)\.")

# Parts of addresses on the network (multiaddrs), such as ``/ip4/203.0.113.1/tcp/4001/p2p/12D3``.
HOSTS: Final = frozenset({"ip4", "ip6", "dns", "dns4", "dns6", "dnsaddr"})
PEER: Final = "/p2p/"
RELAY: Final = "/p2p-circuit"
MAX_ADDRESS: Final = 1000  # characters of one

# Kubo replies with 403 to wrong credentials, and with 500 to whatever it cannot do.
KUBO_ERRORS: Final = ErrorTable(
    texts=(("Message",),),
    classes={401: AuthenticationError, 403: AuthenticationError, 429: RateLimitError},
    not_pinned=frozenset({500}),
    phrases=("not pinned",),
)
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


def reply_error(reply: Reply, token: Secret | None, cid: str | None = None) -> ClientError:
    """Return the error of a failed reply; `cid` is the content that was asked for."""
    if (is_page(reply.headers) and reply.ok) or reply.status in {404, 405}:
        # Kubo sends no pages, and no command of ours is unknown to it.
        return not_kubo(reply, token)
    error = provider_error(reply, secret=token, table=KUBO_ERRORS)
    if reply.status != 500:
        return error
    if "context deadline exceeded" in error.message:
        return RequestTimeoutError(
            f"Kubo did not find {cid or 'the content'} in time: check that a node that has it can "
            "be reached, or allow more time (timeouts)",
            sent=True,
            transient=False,
        )
    if "not found locally" in error.message or "could not find" in error.message:
        return NotFoundError(
            f"Kubo does not have {cid or 'the content'}, and found nobody who has it",
            status=reply.status,
            details=error.details,
        )
    return error


def is_page(headers: Mapping[str, str]) -> bool:
    """Return whether a reply is HTML."""
    return headers.get("content-type", "").lower().startswith("text/html")


def not_kubo(reply: Reply, token: Secret | None) -> ProviderError:
    """Return the error for a reply that cannot be Kubo's."""
    return failure(
        "the reply is not that of Kubo's RPC API: check that pin_api_url is its address (port 5001 "
        "by default, not the gateway's port), and that no proxy or login page is in between",
        reply,
        secret=token,
        table=KUBO_ERRORS,
    )


def lacks_rights(reply: Reply, commands: list[str], token: Secret | None) -> ProviderError:
    """Return the error for a valid token whose user may not call `commands`."""
    paths = ", ".join(f'"/api/v0/{command}"' for command in commands)
    error = failure(  # the table of the spec: the token is accepted, so this is a lack of access
        f"Kubo accepts the token, but not for {', '.join(commands)}",
        reply,
        details=provider_error(reply, secret=token, table=KUBO_ERRORS).details,
        secret=token,
    )
    return advise(
        error,
        f"add {paths} to AllowedPaths of this user in API.Authorizations of Kubo's settings "
        '("/api/v0" allows everything), and start Kubo again',
    )


def check_age(reply: Reply, token: Secret | None) -> None:
    """Raise ProviderError if the reply says that it is of a Kubo that lacks what we need."""
    found = SERVER.match(reply.headers.get("server", ""))
    if found is not None:
        _check_version(found, reply, token)


def check_version(reply: Reply, token: Secret | None) -> None:
    """Check the reply of ``version``."""
    found = VERSION.match(text_at(_objects(reply, token)[-1], "Version"))
    if found is None:
        raise not_kubo(reply, token)
    _check_version(found, reply, token)


def _check_version(found: re.Match[str], reply: Reply, token: Secret | None) -> None:
    version = int(found[1]), int(found[2])
    if version < OLDEST:
        raise failure(
            f"Kubo {version[0]}.{version[1]} is too old: it cannot be told how to cut files and "
            f"name pins; update it to {OLDEST[0]}.{OLDEST[1]} or newer",
            reply,
            secret=token,
            table=KUBO_ERRORS,
        )


def read_hash(reply: Reply, token: Secret | None) -> CID:
    """Return the CID that ``add`` reports in its last object."""
    return _cid(text_at(_objects(reply, token)[-1], "Hash"), reply, token)


def check_import(reply: Reply, roots: list[CID], token: Secret | None) -> None:
    """Check that ``dag/import`` has imported a whole archive and pinned its `roots`."""
    *reports, last = _objects(reply, token)
    if not isinstance(last.get("Stats"), dict):
        raise _cut_off(reply, token)
    pinned = []
    for report in reports:
        root = report.get("Root")
        if words := text_at(root, "PinErrorMsg"):
            raise failure(
                f"Kubo imported the upload and could not pin it: {words}",
                reply,
                secret=token,
                table=KUBO_ERRORS,
            )
        link = root.get("Cid") if isinstance(root, dict) else None
        pinned.append(_cid(text_at(link, "/"), reply, token))
    if pinned != roots:
        raise _cut_off(reply, token)


def check_pins(reply: Reply, cid: str, token: Secret | None) -> None:
    """Check that ``pin/add`` or ``pin/rm`` reports the pin of `cid` in its last object."""
    pins = _objects(reply, token)[-1].get("Pins")
    if not isinstance(pins, list) or not pins:
        raise failure(
            f"Kubo stopped before it had all of {cid}: check that a node that has it can be "
            "reached, or allow more time (timeouts.total)",
            reply,
            secret=token,
            table=KUBO_ERRORS,
        )
    if _cid(str(pins[0]), reply, token) != CID.parse(cid):
        raise not_kubo(reply, token)


def read_addresses(reply: Reply) -> list[str]:
    """Return the public addresses of the node on the network; none where Kubo is offline."""
    value = _object(reply.body)
    found = None if value is None else value.get("Addresses")
    return public_addresses(found if isinstance(found, list) else [])


def public_addresses(addresses: Iterable[object]) -> list[str]:
    """Return the addresses that all can reach, which name a peer; services refuse all others.

    Example:
        >>> public_addresses(["/ip4/10.0.0.1/tcp/4001/p2p/12D3", "/dns/example.com/tcp/1/p2p/12D3"])
        ['/dns/example.com/tcp/1/p2p/12D3']
    """
    texts = (each for each in addresses if isinstance(each, str) and len(each) <= MAX_ADDRESS)
    return [each for each in dict.fromkeys(texts) if _is_public(each)]


def _is_public(address: str) -> bool:
    if RELAY in address or PEER not in address or not address.isascii():
        return False
    empty, kind, host, *_ = [*address.split("/"), "", ""]
    return not empty and kind in HOSTS and bool(host) and privacy(host) == WORLD


def read_pin(reply: Reply, token: Secret | None) -> Pin:
    """Return the one pin in the reply of ``pin/ls`` for a CID."""
    keys = _objects(reply, token)[-1].get("Keys")
    if not isinstance(keys, dict) or len(keys) != 1:
        raise not_kubo(reply, token)
    ((cid, about),) = keys.items()
    _cid(cid, reply, token)
    return make_pin(cid, text_at(about, "Name"))


def make_pin(cid: str, name: str) -> Pin:
    """Return a pin. Kubo knows neither its size nor its time, and has no other id than the CID."""
    return Pin(id=cid, cid=cid, name=name, size=None, created=None)


class KuboPinLines(PinLines[Pin]):
    """Reads the stream of ``pin/ls``."""

    max_line = 1 << 16  # a name has at most 255 bytes

    def read(self, value: dict[str, Any]) -> Pin:
        """Return the pin of a line."""
        cid = text_at(value, "Cid")
        _cid(cid, Reply(200, {}), self._token)
        return make_pin(cid, text_at(value, "Name"))

    def wrong_api(self, reply: Reply) -> ProviderError:
        """Return the error for a list that is not Kubo's."""
        return not_kubo(reply, self._token)

    def cut_off(self, reply: Reply) -> ProviderError:
        """Return the error for a list that is not complete."""
        return _cut_off(reply, self._token)


def _objects(reply: Reply, token: Secret | None) -> list[dict[str, Any]]:
    """Return the objects of a successful reply, at least one."""
    found = [_object(line) for line in reply.body.splitlines() if line.strip()]
    if not found and reply.media_type == "application/json":
        raise _cut_off(reply, token)
    known = [each for each in found if each is not None]
    if not found or len(known) < len(found):
        raise not_kubo(reply, token)
    return known


def _object(line: bytes) -> dict[str, Any] | None:
    value = json_text.value_of(line)
    return value if isinstance(value, dict) else None


def _cid(text: str, reply: Reply, token: Secret | None) -> CID:
    try:
        return CID.parse(text)
    except InvalidCIDError:
        raise _cut_off(reply, token) from None


def _cut_off(reply: Reply, token: Secret | None) -> ProviderError:
    return failure(
        "Kubo's reply does not say that it has done all of it: an error of Kubo came in between, "
        "which its log shows; try again",
        reply,
        secret=token,
        table=KUBO_ERRORS,
    )


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
        stored = read_hash(self._checked(reply), self.token)
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
        check_import(self._checked(reply), roots, self.token)

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
        return make_pin(found, name), known is not None

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
        check_pins(self._checked(reply, cid), cid, self.token)

    def unpin(self, cid: str) -> Exchange[None]:
        """Remove the pin of `cid`.

        If the reply to an earlier attempt was lost, the pin may be gone already: then "not pinned"
        is success.
        """
        reply = yield self.request("pin/rm", {"arg": cid, "recursive": "true"})
        if not (reply.reply_lost and KUBO_ERRORS.says_not_pinned(reply)):
            check_pins(self._checked(reply), cid, self.token)

    def find(self, cid: str) -> Exchange[Pin | None]:
        """Return the pin of `cid`, or of the other version of it, which names the same content."""
        found = yield from self._find(cid)
        other = other_version(cid) if found is None else None
        return found if other is None else (yield from self._find(other))

    def _find(self, cid: str) -> Exchange[Pin | None]:
        reply = yield self.request("pin/ls", {"arg": cid, "type": "recursive", "names": "true"})
        check_age(reply, self.token)
        if KUBO_ERRORS.says_not_pinned(reply):
            return None
        return read_pin(self._checked(reply), self.token)

    def check_credentials(self, commands: Iterable[str]) -> Exchange[None]:
        """Return if Kubo is new enough, and accepts the token for all `commands`."""
        reply = yield self.request("version")
        check_version(self._checked(reply), self.token)
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
            raise lacks_rights(refused, lacking, self.token)

    def addresses(self) -> Exchange[list[str]]:
        """Return the public addresses of the node on the network."""
        reply = yield self.request("id")
        return read_addresses(self._checked(reply))

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
        return reply_error(reply, self.token, cid)

    def _checked(self, reply: Reply, cid: str | None = None) -> Reply:
        """Return `reply` if it is a success so far; raise its error otherwise."""
        if not reply.ok:
            raise self.error(reply, cid)
        if reply.stream_error:  # Kubo had begun its reply, so that its error is in the trailer
            body = reply.stream_error.encode()
            raise self.error(Reply(500, {"content-type": "text/plain"}, body), cid)
        check_age(reply, self.token)
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
