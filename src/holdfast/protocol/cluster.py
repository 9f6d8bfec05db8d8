"""The REST API of IPFS Cluster: its requests, and how their replies are read.

The addresses of requests begin with a path: the provider chooses the peer. A reply with the status
200 means that the cluster has written down what to do. Only the peers say whether it is done.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlencode

from holdfast.config import checks
from holdfast.config.secret import Secret
from holdfast.content.blocks import inline_block
from holdfast.content.cid import CID
from holdfast.content.unixfs.layouts import not_what_was_sent
from holdfast.errors import ClientError, ConfigError, NotFoundError, UnsupportedError
from holdfast.protocol import json_text
from holdfast.protocol.daemon_api import DaemonAPI, check_stream, read_objects
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.json_text import text_at
from holdfast.protocol.multipart import FileSource, OnSent
from holdfast.protocol.pin_api import Exchange, as_texts
from holdfast.protocol.status_errors import CLASSES, ErrorTable, one_line, provider_error
from holdfast.records import Added, Pin, PinFilter, PinInfo, PinState, merged_keyvalues

TOO_LONG: Final = frozenset({414, 431})  # the statuses for a request whose address is too long
NO_TIME: Final = "0001-01-01T00:00:00Z"  # how Go writes that there is no time
# What the cluster says with status 500 about a write that no peer would accept.
REFUSALS: Final = (
    b"not enough peers to allocate",
    b"replication",
    b"only CAR files with a single root",
    b"empty car",
    b"content integrity",
    b"ExpireAt",
)
# The codecs that Kubo stores, and of which the cluster cannot read the links in an archive.
NOT_IN_ARCHIVES: Final = {b"81": "cbor", b"297": "dag-json", b"512": "json"}
NO_DECODER: Final = re.compile(rb"no decoder registered for multicodec code (\d+)")
PINNED: Final = "pinned"
QUEUED: Final = "pin_queued"
FAILED: Final = "pin_error"
NOT_ALLOCATED: Final = "remote"  # the peer is not to keep it
UNREACHABLE: Final = "cluster_error"  # the peer, or its Kubo
PROBLEMS: Final = frozenset({FAILED, UNREACHABLE, "unpinned", "unexpectedly_unpinned", "error"})
ASKED_AT_ONCE: Final = 50  # pins in one request for states; their CIDs are in its address
MAX_STATES: Final = 16 << 20  # bytes of the reply; each pin has some 300 for each peer

NO_REPLY: Final = Reply(200, {})  # of which a list is a part
EVERYWHERE: Final = -1  # the number of copies that stands for all peers
OPTIONS: Final = ("replication_min", "replication_max", "wait")


@dataclass(frozen=True, slots=True)
class PeerStates:
    """The status of one pin at each peer that is to keep it, by the name of the peer.

    Attributes:
        usable: The identifiers of all peers that could keep it. Those that need not keep it were
            not asked, and may be dead.
        unreachable: The identifiers of the peers that could not be asked.
    """

    statuses: Mapping[str, str]
    errors: Mapping[str, str]
    usable: tuple[str, ...] = ()
    unreachable: frozenset[str] = frozenset()

    def is_kept(self, copies: int) -> bool:
        """Return whether enough peers have pinned it."""
        return self.count(PINNED) >= self.needed(copies)

    def is_lost(self, copies: int) -> bool:
        """Return whether so many peers gave up that too few are left."""
        return len(self.statuses) - self.count(FAILED) < self.needed(copies)

    def has_problem(self, copies: int) -> bool:
        """Return whether a peer cannot be reached, has given up, or does not know of the pin."""
        is_short = len(self.statuses) < self.needed(copies)
        return is_short or any(status in PROBLEMS for status in self.statuses.values())

    def needed(self, copies: int) -> int:
        """Return how many peers must have it; `copies` below 0 stands for all."""
        return max(1, len(self.statuses) if copies < 0 else copies)

    def count(self, status: str) -> int:
        """Return how many peers report `status`."""
        return sum(reported == status for reported in self.statuses.values())

    def state(self, copies: int) -> PinState:
        """Return the state of the whole pin."""
        if self.is_kept(copies):
            return "pinned"
        return "queued" if self.count(QUEUED) == len(self.statuses) else "pinning"

    def describe(self) -> str:
        """Return all statuses, and the errors that peers report, as one text."""
        descriptions = (
            f"{name} {status}" + (f" ({self.errors[name]})" if self.errors.get(name) else "")
            for name, status in self.statuses.items()
        )
        return one_line(", ".join(descriptions)) or "no peer reports it"


@dataclass(frozen=True, slots=True)
class ClusterPin:
    """A pin as the cluster keeps it.

    Attributes:
        pin: The pin, without its state.
        copies: How many peers must have it, at least; -1 for all peers.
        most_copies: How many peers are to have it; -1 for all peers.
        expires: When the cluster unpins it, as RFC 3339 writes it; "" for never.
        peers: The identifiers of the peers that are to keep it; none if all are.
    """

    pin: Pin
    copies: int
    most_copies: int
    expires: str = ""
    peers: tuple[str, ...] = ()

    @property
    def cid(self) -> str:
        """The CID."""
        return self.pin.cid

    def with_states(self, states: PeerStates | None) -> Pin:
        """Return the pin with its state."""
        if states is None:
            return replace(self.pin, state="queued")
        peers = dict(sorted(states.statuses.items()))
        return replace(self.pin, state=states.state(self.copies), peers=peers)


def may_differ(request: Request, reply: Reply) -> bool:
    """Return whether a write failed at one peer, and may succeed at another.

    The cluster replies with 500 to whatever it cannot do. Most of that is the trouble of one peer,
    such as a node that cannot be reached.
    """
    is_refusal = any(words in reply.body for words in REFUSALS)
    return request.method == "POST" and reply.status == 500 and not is_refusal


def _milliseconds(text: str) -> int | None:
    """Return a time of the cluster, which keeps whole seconds."""
    try:
        return int(datetime.fromisoformat(text).timestamp()) * 1000
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How many copies the cluster keeps, and whether a write waits for them.

    Attributes:
        copies: How many peers must have new content; None for the cluster's own setting.
        most_copies: How many peers are to have it.
        wait: Whether a write returns only when enough peers have the content.
    """

    copies: int | None = None
    most_copies: int | None = None
    wait: bool = True


def read_options(options: Mapping[str, Any]) -> ClusterOptions:
    """Return `provider_options` for a cluster; raise ConfigError for a mistake.

    Example:
        >>> read_options({"replication_min": 2})
        ClusterOptions(copies=2, most_copies=2, wait=True)
    """
    wait = checks.flag("provider_options: wait", options.get("wait", True))
    least, most = (_copies(name, options.get(name)) for name in OPTIONS[:2])
    least, most = least or most, most or least
    if least is not None and most is not None:
        if (least == EVERYWHERE) != (most == EVERYWHERE):
            raise ConfigError(
                "provider_options: replication_min and replication_max must both be -1 (all "
                "peers), or neither"
            )
        if least > most:
            raise ConfigError(
                "provider_options: replication_min must not be larger than replication_max"
            )
    return ClusterOptions(least, most, wait)


def _copies(name: str, value: int | None) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (is_count and (value >= 1 or value == EVERYWHERE)):
        raise ConfigError(
            f"provider_options: {name} must be a whole number of at least 1, or -1 for all peers"
        )
    return value


class ClusterAPI(DaemonAPI[ClusterPin]):
    """The REST API, with `options` for new pins. The provider puts a peer before each address."""

    errors: ClassVar[ErrorTable] = ErrorTable(
        texts=(("message",),),
        classes=CLASSES,
        not_pinned=frozenset({404}),
        phrases=("not part of the pinset",),
    )
    not_ours = (
        "the reply is not that of the REST API of IPFS Cluster: check that pin_api_url is its "
        "address (port 9094 by default), and that no proxy or login page is in between"
    )

    def __init__(self, token: Secret | None, options: ClusterOptions) -> None:
        super().__init__("", token)
        self.options = options

    def add(
        self,
        cid: CID,
        archive: FileSource,
        info: PinInfo,
        on_sent: OnSent | None = None,
        *,
        whole: bool = False,
        peers: Sequence[str] = (),
    ) -> Exchange[Added]:
        """Add an archive with the only root `cid`, and pin it, at `peers` if they are given.

        A pin replaces everything that is known about an earlier one. So that one is read first.

        With `whole`, the archive is small and in memory: it is sent at once.
        """
        pin = yield from self.find_text(str(cid))
        settings = self._settings(info, pin)
        added = Added(cid=str(cid), duplicate=pin is not None)
        if inline_block(cid) is not None:  # all of it is in the CID; there is no block to add
            yield from self._pin(str(cid), settings)
            return added
        query = {"format": "car", "stream-channels": "false", **settings}
        if pin is not None:
            peers = peers or pin.peers  # else a repeated upload may move it to other peers
        query |= _allocations(peers)
        path = f"/add?{urlencode(query, errors='replace')}"
        reply = self._checked((yield self.upload(path, archive, on_sent, whole=whole)))
        rows = json_text.value_of(reply.body)
        root = rows[-1] if isinstance(rows, list) and rows else None
        stored = self.parse_cid(text_at(root, "cid"), reply)
        if stored != cid:
            raise not_what_was_sent(stored)
        return added

    def pin(self, cid: str, info: PinInfo, peers: Sequence[str] = ()) -> Exchange[ClusterPin]:
        """Pin `cid`, or change its pin; the peers fetch the content later.

        A new pin is made at `peers`, if they are given.
        """
        pin = yield from self.find(cid)
        if pin is not None and not info.is_explicit and self._has_copies(pin):
            return pin
        settings = self._settings(info, pin)
        text = cid if pin is None else pin.cid
        return (yield from self._pin(text, settings | _allocations(peers)))

    def pin_again(self, pin: ClusterPin, peers: Sequence[str]) -> Exchange[ClusterPin]:
        """Pin what is pinned already. Peers that gave up, or are gone, are tried or replaced.

        The cluster replaces a peer by one of `peers`, when it knows that it is gone.
        """
        return (yield from self._pin(pin.cid, _settings(pin) | _allocations(peers)))

    def update(
        self, cid: str, name: str | None, keyvalues: Mapping[str, Any] | None
    ) -> Exchange[ClusterPin]:
        """Change the name, the key-values or both of the pin of `cid`."""
        pin = yield from self.find(cid)
        if pin is None:
            raise not_pinned(cid)
        info = PinInfo(name=name or "", keyvalues=keyvalues or {}, given=name is not None)
        return (yield from self._pin(pin.cid, _settings(_changed(pin, info))))

    def _pin(self, cid: str, settings: Mapping[str, str]) -> Exchange[ClusterPin]:
        query = urlencode(settings, errors="replace")
        reply = yield self.request("POST", f"/pins/{quote(cid)}?{query}")
        return self.read_row(self._object(reply), reply)

    def unpin(self, cid: str) -> Exchange[None]:
        """Remove the pin of `cid`.

        If the reply to an earlier attempt was lost, the pin may be gone already: then "not pinned"
        is success.
        """
        reply = yield self.request("DELETE", f"/pins/{quote(cid)}")
        if not self.errors.says_not_pinned(reply):
            self._object(reply)
        elif not reply.reply_lost:
            raise not_pinned(cid)

    def find_text(self, cid: str) -> Exchange[ClusterPin | None]:
        """Return the pin of the CID that is written as `cid`."""
        reply = yield self.request("GET", f"/allocations/{quote(cid)}")
        if self.errors.says_not_pinned(reply):
            return None
        return self.read_row(self._object(reply), reply)

    def states(self, cid: str) -> Exchange[PeerStates]:
        """Return the status of the pin of `cid` at each peer."""
        reply = yield self.request("GET", f"/pins/{quote(cid)}")
        return self._read_states(self._object(reply), reply)

    def with_states(self, pins: Sequence[ClusterPin]) -> Exchange[list[Pin]]:
        """Return at most `ASKED_AT_ONCE` pins with the status of each at each peer."""
        query = urlencode({"cids": ",".join(pin.cid for pin in pins)})
        reply = yield self.request("GET", f"/pins?{query}", max_reply=MAX_STATES)
        values = read_objects(self._checked(reply).body)
        if values is None:
            raise self.wrong_api(reply)
        states = {str(value.get("cid")): self._read_states(value, reply) for value in values}
        return [pin.with_states(states.get(pin.cid)) for pin in pins]

    def check_credentials(self) -> Exchange[None]:
        """Return if a peer accepts the token."""
        reply = yield self.request("GET", "/id")
        if not self._object(reply).get("cluster_peers"):
            raise self.wrong_api(reply)

    def list_request(self) -> Request:
        """Return the request for a stream of all pins, which `PinLines` reads."""
        return self.request("GET", "/allocations?filter=pin")

    def error(self, reply: Reply) -> ClientError:
        """Return the error of a failed reply."""
        if reply.media_type != "application/json" and reply.status in {200, 404, 405}:
            return self.wrong_api(reply)
        if reply.status in TOO_LONG:
            words = (
                "the name and key-values are too long for the cluster: shorten them, or raise "
                "max_header_bytes of its REST API"
            )
            return self.failure(words, reply)
        if (codec := NO_DECODER.search(reply.body)) is not None:
            name = NOT_IN_ARCHIVES.get(codec[1], f"number {codec[1].decode()}")
            return UnsupportedError(
                f"IPFS Cluster takes no archives with blocks of the codec {name}: pin the CID, "
                "which works if its nodes can fetch the content from another node"
            )
        return provider_error(reply, secret=self.token, table=self.errors)

    def _checked(self, reply: Reply) -> Reply:
        """Return `reply` if it is a success so far; raise its error otherwise."""
        if not reply.ok or reply.media_type != "application/json":
            raise self.error(reply)
        check_stream(reply, self.token)
        return reply

    def _object(self, reply: Reply) -> dict[str, Any]:
        """Return the JSON object of a successful reply; raise the error of another."""
        value = json_text.value_of(self._checked(reply).body)
        if not isinstance(value, dict):
            raise self.wrong_api(reply)
        return value

    def read_row(self, value: dict[str, Any], reply: Reply = NO_REPLY) -> ClusterPin:
        """Return the pin of an object of ``/allocations`` or ``/pins``."""
        keyvalues = value.get("metadata") or {}
        peers = value.get("allocations") or []
        copies, most = (value.get(f"replication_factor_{bound}") for bound in ("min", "max"))
        if not (
            isinstance(keyvalues, dict)
            and isinstance(peers, list)
            and isinstance(copies, int)
            and isinstance(most, int)
        ):
            raise self.wrong_api(reply)
        cid, expires = text_at(value, "cid"), text_at(value, "expire_at")
        self.parse_cid(cid, reply)
        pin = Pin(
            id=cid,
            cid=cid,
            name=text_at(value, "name"),
            keyvalues={str(key): str(text) for key, text in keyvalues.items()},
            size=None,  # which the cluster does not know
            created_ms=_milliseconds(text_at(value, "timestamp")),
        )
        expires = "" if expires == NO_TIME else expires
        return ClusterPin(pin, copies, most, expires, tuple(map(str, peers)))

    def _read_states(self, value: dict[str, Any], reply: Reply) -> PeerStates:
        """Return the states in an object of ``/pins/CID``, without the peers that need not keep it.

        Only these are used: the other members may come from a peer that is not up to date.
        """
        peers = value.get("peer_map")
        if not isinstance(peers, dict) or not all(isinstance(row, dict) for row in peers.values()):
            raise self.wrong_api(reply)
        names = [text_at(row, "peername") for row in peers.values()]
        if not all(names) or len(set(names)) < len(names):
            names = list(peers)
        rows = [
            (name, row)
            for name, row in zip(names, peers.values(), strict=True)
            if row.get("status") != NOT_ALLOCATED
        ]
        failed = {FAILED, UNREACHABLE, "error"}
        return PeerStates(
            {name: text_at(row, "status") for name, row in rows},
            {name: text_at(row, "error") for name, row in rows},
            tuple(peer for peer, row in peers.items() if row.get("status") not in failed),
            frozenset(peer for peer, row in peers.items() if row.get("status") == UNREACHABLE),
        )

    def _has_copies(self, pin: ClusterPin) -> bool:
        configured = self.options.copies, self.options.most_copies
        return configured in {(None, None), (pin.copies, pin.most_copies)}

    def _settings(self, info: PinInfo, pin: ClusterPin | None) -> dict[str, str]:
        """Return the settings of a pin: those it has, what the user gave, what is configured."""
        info = PinInfo(name=info.name, keyvalues=info.keyvalues, given=info.given or pin is None)
        settings = _settings(_changed(pin or NEW, info))
        if self.options.copies is not None:
            settings["replication-min"] = str(self.options.copies)
            settings["replication-max"] = str(self.options.most_copies)
        return settings


NEW: Final = ClusterPin(Pin(id="", cid=""), copies=0, most_copies=0)
"""What a pin has that does not exist yet; 0 copies are the cluster's own setting."""


def matches(pin: Pin, pin_filter: PinFilter) -> bool:
    """Return whether `pin` is one of those that are wanted by name, key-values and time."""
    return (
        (pin_filter.name or "") in pin.name
        and pin_filter.fits(pin.keyvalues)
        and (pin_filter.since is None or pin_filter.since <= (pin.created_ms or 0))
        and (pin_filter.until is None or (pin.created_ms or 0) <= pin_filter.until)
    )


def not_pinned(cid: str) -> NotFoundError:
    """Return the error for a CID that is not pinned."""
    return NotFoundError(f"The current user has not pinned the cid: {cid}", status=404)


def _changed(pin: ClusterPin, info: PinInfo) -> ClusterPin:
    name = info.name if info.given else pin.pin.name
    keyvalues = merged_keyvalues(pin.pin.keyvalues, as_texts(info.keyvalues))
    return replace(pin, pin=replace(pin.pin, name=name, keyvalues=keyvalues))


def _allocations(peers: Sequence[str]) -> dict[str, str]:
    return {"user-allocations": ",".join(peers)} if peers else {}


def _settings(pin: ClusterPin) -> dict[str, str]:
    """Return everything that a pin request must repeat, because it replaces the pin."""
    settings = {"mode": "recursive", "name": pin.pin.name}
    settings |= {f"meta-{key}": value for key, value in pin.pin.keyvalues.items()}
    settings |= {"replication-min": str(pin.copies), "replication-max": str(pin.most_copies)}
    return settings | ({"expire-at": pin.expires} if pin.expires else {})
