"""The RPC API of Kubo: its requests, and how their replies are read.

An error after the first byte of a reply is only in its trailer, and some failures are an empty
reply. So a status of 200 means nothing here: every reply must hold the words that only success has.

A hosted Kubo has a part of this API, `WRITE_COMMANDS` at least, and may keep no names of pins. It
replies with 404 or 405 to the other calls.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.content.profiles import Profile
from holdfast.content.unixfs.layouts import not_what_was_sent
from holdfast.errors import (
    AuthenticationError,
    ClientError,
    NotFoundError,
    ProviderError,
    RateLimitError,
    RequestTimeoutError,
    UnsupportedError,
)
from holdfast.hints import advise
from holdfast.protocol import json_text
from holdfast.protocol.daemon_api import DaemonAPI, read_objects
from holdfast.protocol.host_privacy import WORLD, privacy
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.json_text import text_at
from holdfast.protocol.multipart import FileSource, OnSent
from holdfast.protocol.pin_api import Exchange, KeyValues
from holdfast.protocol.status_errors import ErrorTable, failure, provider_error
from holdfast.records import Added, Pin, PinFilter, PinInfo, PinProgress, Usage

ROOT: Final = "/api/v0"
OLDEST: Final = (0, 37)  # the first with pin-name for `add`; max-file-links came with 0.35
SERVER: Final = re.compile(r"kubo/(\d+)\.(\d+)\.")

# Parts of addresses on the network (multiaddrs), such as ``/ip4/203.0.113.1/tcp/4001/p2p/12D3``.
HOSTS: Final = frozenset({"ip4", "ip6", "dns", "dns4", "dns6", "dnsaddr"})
PEER: Final = "/p2p/"
RELAY: Final = "/p2p-circuit"
MAX_ADDRESS: Final = 1000  # characters of one

MAX_NAME: Final = 255  # bytes of a pin's name
MAX_PROGRESS: Final = 16 << 20  # bytes of the reply of a pin that takes long

# What the provider calls. Kubo allows ``version`` to every user who is in its settings.
WRITE_COMMANDS: Final = ("add", "dag/import", "pin/add", "pin/ls", "pin/rm")
READ_COMMANDS: Final = ("block/get", "cat", "dag/export")  # not needed where a gateway reads
FORBIDDEN: Final = 403
NO_SUCH_CALL: Final = frozenset({404, 405})  # Kubo itself replies to no command of ours with these
ACCEPTED: Final = frozenset({200, 400, 415, 422, 500})  # the token, though not the call
UNPINNED: Final = "bafkqaaa"  # the empty file, which is in its CID; without a CID all are listed
CHECK_ADDRESS: Final = (
    "check that pin_api_url is its address (port 5001 by default, not the gateway's port), and "
    "that no proxy or login page is in between"
)
NO_NAMES: Final = "the server does not store pin names: leave name out, and find pins by their CIDs"


class KuboAPI(DaemonAPI[Pin]):
    """The RPC API at `base_url`, which stores files in the layout of `profile`."""

    # Kubo replies with 403 to wrong credentials, and with 500 to whatever it cannot do.
    errors: ClassVar[ErrorTable] = ErrorTable(
        texts=(("Message",),),
        classes={401: AuthenticationError, 403: AuthenticationError, 429: RateLimitError},
        not_pinned=frozenset({404, 500}),
        phrases=("not pinned",),
    )
    not_ours = f"the reply is not that of Kubo's RPC API: {CHECK_ADDRESS}"
    max_line = 16 << 20  # a server without streams sends all pins in one, as many as 190,000

    def __init__(self, base_url: str, token: Secret | None, profile: Profile) -> None:
        super().__init__(base_url.removesuffix(ROOT), token)
        self._layout = _layout_options(profile)
        self.missing: set[str] = set()  # the calls that the server does not have
        self._keeps_names = False  # until a pin has the name that was sent

    def add(
        self,
        source: FileSource,
        info: PinInfo,
        on_sent: OnSent,
        *,
        cid: CID | None,
        whole: bool = False,
    ) -> Exchange[Added]:
        """Add a file, and pin it if `cid`, its CID, is known beforehand, or the user gave a name.

        To pin again replaces the name of a pin. So for a file whose CID is known only at its end,
        and a name that must not replace another, `keep` has to follow.

        With `whole`, the file is small and in memory: it is sent at once.
        """
        pin = None if cid is None else (yield from self.find_text(str(cid)))
        name = _name_for(info, pin)
        pins = cid is not None or info.given
        options = {**self._layout, "pin": _flag(pins)}
        if pins and name:
            options["pin-name"] = name
        reply = yield self.upload(_path("add", options), source, on_sent, whole=whole)
        last = self._objects(self._checked(reply, "add"))[-1]
        stored = self.parse_cid(text_at(last, "Hash"), reply)
        if cid is not None and stored != cid:
            raise not_what_was_sent(stored)
        return Added(cid=str(stored), duplicate=None if cid is None else pin is not None)

    def import_archive(
        self, cid: CID, archive: FileSource, info: PinInfo, on_sent: OnSent | None = None
    ) -> Exchange[Added]:
        """Import an archive whose only root is `cid`, and pin it.

        Content that is pinned is complete already, so it is not sent again, unless it is repaired.
        """
        pin = yield from self.find_text(str(cid))
        name = _name_for(info, pin)
        has_name = "" if pin is None else pin.name
        if pin is None or info.is_repair:
            path = _path("dag/import", {"stats": "true", "pin-roots": "true"})
            reply = yield self.upload(path, archive, on_sent)
            self._check_import(self._checked(reply, "dag/import"), cid)
            has_name = ""  # the pin that is made again has none
        is_named = True
        if name != has_name:
            is_named = yield from self._rename(str(cid), name)
        dropped = () if is_named else ("name",)
        return Added(cid=str(cid), duplicate=pin is not None, dropped=dropped)

    def _check_import(self, reply: Reply, cid: CID) -> None:
        """Check that ``dag/import`` has imported a whole archive and pinned its root."""
        *reports, last = self._objects(reply)
        if not isinstance(last.get("Stats"), dict):
            raise self.cut_off(reply)
        pinned = []
        for report in reports:
            root = report.get("Root")
            if words := text_at(root, "PinErrorMsg"):
                raise self.failure(f"Kubo imported the upload but could not pin it: {words}", reply)
            link = root.get("Cid") if isinstance(root, dict) else None
            pinned.append(self.parse_cid(text_at(link, "/"), reply))
        if pinned != [cid]:
            raise self.cut_off(reply)

    def keep(
        self, cid: str, info: PinInfo, *, timeout: float | None = None
    ) -> Exchange[tuple[Pin, bool]]:
        """Pin `cid`; return the pin, and whether it was pinned before.

        Kubo may fetch the content from the network for `timeout` seconds; None is not at all.
        """
        pin = yield from self.find(cid)
        name = _name_for(info, pin)
        text = cid if pin is None else pin.cid
        if pin is None or name != pin.name:
            yield from self._pin(text, name, timeout=timeout)
        return _make_pin(text, name), pin is not None

    def update(self, cid: str, name: str | None, keyvalues: KeyValues | None) -> Exchange[Pin]:
        """Change the name of a pin."""
        info = PinInfo(name=name or "", keyvalues=keyvalues or {}, given=name is not None)
        check_info(info)
        pin = yield from self.find(cid)
        if pin is None:
            raise NotFoundError(f"{cid} is not pinned: pin it first, then name it")
        name = _name_for(info, pin)
        if name != pin.name and not (yield from self._rename(pin.cid, name)):
            raise UnsupportedError(NO_NAMES)
        return _make_pin(pin.cid, name)

    def _rename(self, cid: str, name: str) -> Exchange[bool]:
        """Give the pin of `cid` a name; return whether the server keeps it."""
        yield from self._pin(cid, name, timeout=None)
        if name and not self._keeps_names:
            pin = yield from self.find_text(cid)
            self._keeps_names = pin is not None and pin.name == name
        return self._keeps_names or not name

    def _pin(self, cid: str, name: str, *, timeout: float | None) -> Exchange[None]:
        options = {"arg": cid, **({"name": name} if name else {}), **_reach(timeout)}
        options["progress"] = "true"  # so that a pin that takes long is not taken for a stall
        reply = yield self.command("pin/add", options, max_reply=MAX_PROGRESS)
        self._check_pins(self._checked(reply, "pin/add", cid), cid)

    def unpin(self, cid: str) -> Exchange[None]:
        """Remove the pin of `cid`.

        If the reply to an earlier attempt was lost, the pin may be gone already: then "not pinned"
        is success.
        """
        reply = yield self.command("pin/rm", {"arg": cid, "recursive": "true"})
        if not (reply.reply_lost and self.errors.says_not_pinned(reply)):
            self._check_pins(self._checked(reply, "pin/rm"), cid)

    def _check_pins(self, reply: Reply, cid: str) -> None:
        """Check that ``pin/add`` or ``pin/rm`` reports the pin of `cid` in its last object."""
        pins = self._objects(reply)[-1].get("Pins")
        if not isinstance(pins, list) or not pins:
            words = (
                f"Kubo stopped before it had all of {cid}: check that a node that has it can be "
                "reached, or allow more time (timeouts.total)"
            )
            raise self.failure(words, reply)
        if self.parse_cid(str(pins[0]), reply) != CID.parse(cid):
            raise self.wrong_api(reply)

    def find_text(self, cid: str) -> Exchange[Pin | None]:
        """Return the pin of the CID that is written as `cid`."""
        reply = yield self.command("pin/ls", {"arg": cid, "type": "recursive", "names": "true"})
        self._check_age(reply, reply.headers.get("server", ""))
        if self.errors.says_not_pinned(reply):
            return None
        objects = self._objects(self._checked(reply, "pin/ls"))
        pins = [self.read_row(row) for row in self.rows_of(objects[-1])]
        return next((pin for pin in pins if CID.parse(pin.cid) == CID.parse(cid)), None)

    def list_request(self, pin_filter: PinFilter) -> Request:
        """Return the request for a stream of pins, which `PinLines` reads."""
        options = {"type": "recursive", "names": "true", "stream": "true"}
        return self.command(
            "pin/ls", {**options, **({"name": pin_filter.name} if pin_filter.name else {})}
        )

    def rows_of(self, value: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a line: one, or all pins, from a server that sends no stream."""
        if "Keys" not in value:
            return [value]
        keys = value["Keys"] or {}
        if not isinstance(keys, dict):
            raise self.wrong_api(Reply(200, {}))
        return [{"Cid": cid, "Name": text_at(key, "Name")} for cid, key in keys.items()]

    def read_row(self, value: dict[str, Any]) -> Pin:
        """Return the pin of a line."""
        cid = text_at(value, "Cid")
        self.parse_cid(cid, Reply(200, {}))
        return _make_pin(cid, text_at(value, "Name"))

    def check_credentials(self, reads: Iterable[str]) -> Exchange[None]:
        """Return if Kubo is new enough, and accepts the token for all commands.

        `reads` are those that read. A server without ``version`` is asked for a pin, and for these.
        """
        reply = yield self.command("version")
        if reply.status in NO_SUCH_CALL:
            yield from self.find_text(UNPINNED)
            yield from self._check_rights(reads)
            return
        version = text_at(self._objects(self._checked(reply, "version"))[-1], "Version")
        if not self._check_age(reply, f"kubo/{version}"):
            raise self.wrong_api(reply)
        if self.token is not None:
            yield from self._check_rights((*WRITE_COMMANDS, *reads))

    def _check_age(self, reply: Reply, server: str) -> bool:
        """Raise ProviderError if `server` is a Kubo that lacks what we need; else, is it Kubo?"""
        match = SERVER.match(server)
        if match is not None and (int(match[1]), int(match[2])) < OLDEST:
            words = (
                f"Kubo {match[1]}.{match[2]} is too old: it has no options to cut files and "
                f"name pins; update it to {OLDEST[0]}.{OLDEST[1]} or newer"
            )
            raise self.failure(words, reply)
        return match is not None

    def _check_rights(self, commands: Iterable[str]) -> Exchange[None]:
        """Raise PermissionDeniedError if the token is valid, but not for all `commands`.

        Each is sent without the arguments that it needs. So Kubo does nothing: it refuses the
        token (403), or else the call (400; 500 for ``pin/ls``, whose CID is not pinned).
        """
        lacking: list[str] = []
        refused: Reply | None = None
        for command in commands:
            options = {"arg": UNPINNED, "type": "recursive"} if command == "pin/ls" else {}
            reply = yield self.command(command, options)
            if reply.status == FORBIDDEN:
                lacking.append(command)
                refused = reply
            elif reply.status in NO_SUCH_CALL and command in READ_COMMANDS[1:]:
                self.missing.add(command)  # ``block/get`` can do without
            elif reply.status not in ACCEPTED:
                raise self.error(reply, command)
        if refused is not None:
            raise self._lacks_rights(refused, lacking)

    def _lacks_rights(self, reply: Reply, commands: list[str]) -> ProviderError:
        """Return the error for a valid token whose user may not call `commands`."""
        paths = ", ".join(f'"/api/v0/{command}"' for command in commands)
        error = failure(  # the table of the spec: the token is accepted, so access is lacking
            f"Kubo accepts the token, but not for {', '.join(commands)}",
            reply,
            details=provider_error(reply, secret=self.token, table=self.errors).details,
            secret=self.token,
        )
        return advise(
            error,
            f"add {paths} to AllowedPaths of this user in API.Authorizations of Kubo's settings "
            '("/api/v0" allows everything), and start Kubo again',
        )

    def usage(self) -> Exchange[Usage]:
        """Return the bytes of all blocks, and how many there may be."""
        reply = yield self.command("repo/stat", {"size-only": "true"})
        value = self._objects(self._checked(reply, "repo/stat"))[-1]
        return Usage(bytes=_count(value, "RepoSize"), limit=_count(value, "StorageMax"))

    def addresses(self) -> Exchange[list[str]]:
        """Return the public addresses of the node on the network; none where Kubo is offline."""
        reply = self._checked((yield self.command("id")), "id")
        value = json_text.value_of(reply.body)
        addresses = value.get("Addresses") if isinstance(value, dict) else None
        return public_addresses(addresses if isinstance(addresses, list) else [])

    def content_request(self, command: str, cid: CID, timeout: float | None = None) -> Request:
        """Return the request for the block, the bytes or the archive of `cid`.

        Kubo may ask the network for `timeout` seconds; None is not at all.
        """
        return self.command(command, {"arg": str(cid), **_reach(timeout)})

    def error(self, reply: Reply, command: str, cid: str | None = None) -> ClientError:
        """Return the error of a failed `command`; `cid` is the content that was asked for."""
        if is_page(reply.headers) and reply.ok:  # Kubo sends no pages
            return self.wrong_api(reply)
        if reply.status in NO_SUCH_CALL and not self.errors.says_not_pinned(reply):
            return self._lacks(command, reply)
        error = provider_error(reply, secret=self.token, table=self.errors)
        if reply.status != 500:
            return error
        if "context deadline exceeded" in error.message:
            return RequestTimeoutError(
                f"Kubo did not find {cid or 'the content'} in time: check that a node that has it "
                "can be reached, or allow more time (timeouts)",
                sent=True,
                transient=False,
            )
        if "not found locally" in error.message or "could not find" in error.message:
            return NotFoundError(
                f"Kubo does not have {cid or 'the content'}, and found no node that does",
                status=reply.status,
                details=error.details,
            )
        return error

    def _lacks(self, command: str, reply: Reply) -> ClientError:
        """Return the error for a server that does not have `command`."""
        self.missing.add(command)
        words = f"the server does not have {command} of Kubo's RPC API: "
        if command in WRITE_COMMANDS:  # without them, nothing works
            return self.failure(words + CHECK_ADDRESS, reply)
        words += "set gateway_url to read through a gateway, or check pin_api_url"
        example = "https://ipfs.io/ipfs"
        return advise(
            UnsupportedError(words), f"gateway_url={example!r}", f"`--gateway-url {example}`"
        )

    def cut_off(self, reply: Reply) -> ProviderError:
        """Return the error for a reply that is not complete."""
        words = (
            "Kubo's reply does not show that it has finished: an error cut it short, which "
            "Kubo's log shows; try again"
        )
        return self.failure(words, reply)

    def _checked(self, reply: Reply, command: str, cid: str | None = None) -> Reply:
        """Return the reply to `command` if it is a success so far; raise its error otherwise."""
        if not reply.ok:
            raise self.error(reply, command, cid)
        if reply.stream_error:  # Kubo had begun its reply, so that its error is in the trailer
            body = reply.stream_error.encode()
            raise self.error(Reply(500, {"content-type": "text/plain"}, body), command, cid)
        self._check_age(reply, reply.headers.get("server", ""))
        return reply

    def _objects(self, reply: Reply) -> list[dict[str, Any]]:
        """Return the objects of a successful reply, at least one."""
        objects = read_objects(reply.body)
        if objects:
            return objects
        is_cut = objects is not None and reply.media_type == "application/json"
        raise self.cut_off(reply) if is_cut else self.wrong_api(reply)

    def command_of(self, request: Request) -> str:
        """Return the command that `request` calls."""
        return request.url.removeprefix(f"{self.base_url}{ROOT}/").partition("?")[0]

    def command(self, name: str, options: Mapping[str, str] | None = None, **more: Any) -> Request:
        """Return a request for a command."""
        return self.request("POST", _path(name, options or {}), **more)


def _path(command: str, options: Mapping[str, str]) -> str:
    query = urlencode(options, errors="replace")
    return f"{ROOT}/{command}" + (f"?{query}" if query else "")


def is_page(headers: Mapping[str, str]) -> bool:
    """Return whether a reply is HTML."""
    return headers.get("content-type", "").lower().startswith("text/html")


def public_addresses(addresses: Iterable[object]) -> list[str]:
    """Return the addresses that all can reach, which name a peer; services refuse all others.

    Example:
        >>> public_addresses(["/ip4/10.0.0.1/tcp/4001/p2p/12D3", "/dns/example.com/tcp/1/p2p/12D3"])
        ['/dns/example.com/tcp/1/p2p/12D3']
    """
    texts = (
        address for address in addresses if isinstance(address, str) and len(address) <= MAX_ADDRESS
    )
    return [address for address in dict.fromkeys(texts) if _is_public(address)]


def _is_public(address: str) -> bool:
    if RELAY in address or PEER not in address or not address.isascii():
        return False
    empty, kind, host, *_ = [*address.split("/"), "", ""]
    return not empty and kind in HOSTS and bool(host) and privacy(host) == WORLD


def _make_pin(cid: str, name: str) -> Pin:
    """Return a pin. Kubo knows neither its size nor its time, and has no other id than the CID."""
    return Pin(id=cid, cid=cid, name=name, size=None)


def read_progress(body: bytearray) -> PinProgress | None:
    r"""Return the last progress that a part of a reply to ``pin/add`` reports, if it does.

    Example:
        >>> read_progress(bytearray(b'{"Progress":1,"Bytes":9}\n{"Pins":["bafkqaaa"]}\n')).bytes
        9
    """
    for line in reversed(body.splitlines()[-3:]):  # the last one may be cut off
        value = json_text.value_of(bytes(line))
        if (blocks := _count(value, "Progress")) is not None:
            return PinProgress(blocks=blocks, bytes=_count(value, "Bytes"))
    return None


def _count(value: Any, member: str) -> int | None:
    count = value.get(member) if isinstance(value, dict) else None
    return count if isinstance(count, int) else None


def check_info(info: PinInfo) -> None:
    """Raise `UnsupportedError` for what Kubo cannot keep of a pin."""
    if info.keyvalues:
        raise UnsupportedError("Kubo does not store key-values; leave keyvalues out")
    if info.given and len(info.name.encode(errors="replace")) > MAX_NAME:
        raise UnsupportedError(f"Kubo accepts names of up to {MAX_NAME} bytes; shorten the name")


def check_filter(pin_filter: PinFilter) -> None:
    """Raise `UnsupportedError` for a filter that Kubo does not have."""
    if pin_filter.keyvalues:
        raise UnsupportedError("Kubo does not store key-values; find pins by name or CID")
    if pin_filter.since is not None or pin_filter.until is not None:
        raise UnsupportedError("Kubo does not store the times of pins; leave since and until out")


def _name_for(info: PinInfo, pin: Pin | None) -> str:
    """Return the name of a pin: the old one, unless there is none or the user gave another."""
    if pin is not None and not info.given:
        return pin.name
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
