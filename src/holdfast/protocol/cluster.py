"""The REST API of IPFS Cluster: its requests, and how their replies are read.

The addresses of requests begin with a path: the provider chooses the peer. A reply with the status
200 means that the cluster has written down what to do. Only the peers say whether it is done.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from holdfast.config.secret import Secret
from holdfast.content.blocks import inline_block
from holdfast.content.cid import CID
from holdfast.content.unixfs.layouts import not_what_was_sent
from holdfast.errors import (
    ClientError,
    ConfigError,
    InvalidCIDError,
    NotFoundError,
    ProviderError,
    SerializationError,
)
from holdfast.protocol import json_text
from holdfast.protocol.http import RETRIED, Reply, Request, authorization
from holdfast.protocol.json_text import text_at
from holdfast.protocol.multipart import FileForm, FileSource, FormFile
from holdfast.protocol.pin_api import Exchange, JSONLines, PinLines, check_stream, other_version
from holdfast.protocol.status_errors import CLASSES, ErrorTable, failure, one_line, provider_error
from holdfast.records import Added, Pin, PinFilter, PinInfo, PinState, merged_keyvalues, value_text

CLUSTER_ERRORS: Final = ErrorTable(
    texts=(("message",),),
    classes=CLASSES,
    not_pinned=frozenset({404}),
    phrases=("not part of the pinset",),
)
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
PINNED: Final = "pinned"
QUEUED: Final = "pin_queued"
FAILED: Final = "pin_error"
NOT_ALLOCATED: Final = "remote"  # the peer is not to keep it
UNREACHABLE: Final = "cluster_error"  # the peer, or its Kubo
PROBLEMS: Final = frozenset({FAILED, UNREACHABLE, "unpinned", "unexpectedly_unpinned", "error"})
PART_NAME: Final = "archive"  # the cluster needs a name, and does not keep it
ASKED_AT_ONCE: Final = 50  # pins in one request for states; their CIDs are in its address
MAX_STATES: Final = 16 << 20  # bytes of the reply; each pin has some 300 for each peer

# The cluster answers 500 to whatever it cannot do, so only the others are worth another attempt.
RETRIED_HERE: Final = frozenset(RETRIED - {500})
EVERYWHERE: Final = -1  # the number of copies that stands for all peers
OPTIONS: Final = ("replication_min", "replication_max", "wait")


@dataclass(frozen=True, slots=True)
class ClusterPin:
    """A pin as the cluster keeps it, without its state.

    Attributes:
        copies: How many peers must have it, at least; -1 for all peers.
        most_copies: How many peers are to have it; -1 for all peers.
        expires: When the cluster unpins it, as RFC 3339 writes it; "" for never.
        peers: The identifiers of the peers that are to keep it; none if all are.
    """

    cid: str
    name: str
    keyvalues: Mapping[str, str]
    created: int | None
    copies: int
    most_copies: int
    expires: str
    peers: tuple[str, ...]


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
        return sum(each == status for each in self.statuses.values())

    def state(self, copies: int) -> PinState:
        """Return the state of the whole pin."""
        if self.is_kept(copies):
            return "pinned"
        return "queued" if self.count(QUEUED) == len(self.statuses) else "pinning"

    def describe(self) -> str:
        """Return all statuses, and the errors that peers report, as one text."""
        found = (
            f"{name} {status}" + (f" ({self.errors[name]})" if self.errors.get(name) else "")
            for name, status in self.statuses.items()
        )
        return one_line(", ".join(found)) or "no peer reports it"


def reply_error(reply: Reply, token: Secret | None) -> ClientError:
    """Return the error of a failed reply."""
    if reply.media_type != "application/json" and reply.status in {200, 404, 405}:
        return not_cluster(reply, token)
    if reply.status in TOO_LONG:
        words = (
            "the name and key-values are too long for the cluster: shorten them, or raise "
            "max_header_bytes of its REST API"
        )
        return failure(words, reply, secret=token, table=CLUSTER_ERRORS)
    return provider_error(reply, secret=token, table=CLUSTER_ERRORS)


def not_cluster(reply: Reply, token: Secret | None) -> ProviderError:
    """Return the error for a reply that cannot be that of IPFS Cluster."""
    return failure(
        "the reply is not that of the REST API of IPFS Cluster: check that pin_api_url is its "
        "address (port 9094 by default), and that no proxy or login page is in between",
        reply,
        secret=token,
        table=CLUSTER_ERRORS,
    )


def may_differ(request: Request, reply: Reply) -> bool:
    """Return whether a write failed at one peer, and may succeed at another.

    The cluster replies with 500 to whatever it cannot do. Most of that is the trouble of one peer,
    such as a node that cannot be reached.
    """
    is_refusal = any(words in reply.body for words in REFUSALS)
    return request.method == "POST" and reply.status == 500 and not is_refusal


def read_object(reply: Reply, token: Secret | None) -> dict[str, Any]:
    """Return the JSON object of a successful reply."""
    value = json_text.value_of(reply.body)
    if not isinstance(value, dict):
        raise not_cluster(reply, token)
    return value


def read_root(reply: Reply, token: Secret | None) -> CID:
    """Return the CID that ``/add`` reports last."""
    value = json_text.value_of(reply.body)
    last = value[-1] if isinstance(value, list) and value else None
    if not isinstance(last, dict):
        raise not_cluster(reply, token)
    return _cid(last, reply, token)


def read_pin(value: dict[str, Any], reply: Reply, token: Secret | None) -> ClusterPin:
    """Return the pin of an object of ``/allocations`` or ``/pins``."""
    about = value.get("metadata") or {}
    peers = value.get("allocations") or []
    copies, most = (value.get(f"replication_factor_{each}") for each in ("min", "max"))
    if not (
        isinstance(about, dict)
        and isinstance(peers, list)
        and isinstance(copies, int)
        and isinstance(most, int)
    ):
        raise not_cluster(reply, token)
    _cid(value, reply, token)
    expires = text_at(value, "expire_at")
    return ClusterPin(
        cid=text_at(value, "cid"),
        name=text_at(value, "name"),
        keyvalues={str(key): str(each) for key, each in about.items()},
        created=_milliseconds(text_at(value, "timestamp")),
        copies=copies,
        most_copies=most,
        expires="" if expires == NO_TIME else expires,
        peers=tuple(map(str, peers)),
    )


def read_states(value: dict[str, Any], reply: Reply, token: Secret | None) -> PeerStates:
    """Return the states in an object of ``/pins/CID``, without the peers that need not keep it.

    Only these are used: the other members may come from a peer that is not up to date.
    """
    found = value.get("peer_map")
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise not_cluster(reply, token)
    names = [text_at(about, "peername") for about in found.values()]
    if not all(names) or len(set(names)) < len(names):
        names = list(found)
    pairs = [
        (name, about)
        for name, about in zip(names, found.values(), strict=True)
        if about.get("status") != NOT_ALLOCATED
    ]
    failed = {FAILED, UNREACHABLE, "error"}
    return PeerStates(
        {name: text_at(about, "status") for name, about in pairs},
        {name: text_at(about, "error") for name, about in pairs},
        tuple(peer for peer, about in found.items() if about.get("status") not in failed),
        frozenset(peer for peer, about in found.items() if about.get("status") == UNREACHABLE),
    )


def make_pin(pin: ClusterPin, states: PeerStates | None) -> Pin:
    """Return a pin with its state. The cluster does not know its size."""
    return Pin(
        id=pin.cid,
        cid=pin.cid,
        name=pin.name,
        keyvalues=pin.keyvalues,
        size=None,
        created=pin.created,
        state="queued" if states is None else states.state(pin.copies),
        peers=None if states is None else dict(sorted(states.statuses.items())),
    )


def _cid(value: dict[str, Any], reply: Reply, token: Secret | None) -> CID:
    try:
        return CID.parse(text_at(value, "cid"))
    except InvalidCIDError:
        raise not_cluster(reply, token) from None


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
    for name in options:
        if name not in OPTIONS:
            raise ConfigError(f"provider_options: cluster takes {', '.join(OPTIONS)}, not {name!r}")
    wait = options.get("wait", True)
    if not isinstance(wait, bool):
        raise ConfigError("provider_options: wait must be True or False")
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


def _copies(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or (value < 1 and value != EVERYWHERE):
        raise ConfigError(
            f"provider_options: {name} must be a whole number of at least 1, or -1 for all peers"
        )
    return value


@dataclass(frozen=True, slots=True)
class ClusterAPI:
    """The REST API. `token` is a bearer token, or ``user:password``."""

    token: Secret | None
    options: ClusterOptions
    _credential: dict[str, Secret] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_credential", authorization(self.token))

    def add(
        self,
        cid: CID,
        archive: FileSource,
        info: PinInfo,
        on_sent: Callable[[int], None],
        *,
        whole: bool = False,
        peers: Sequence[str] = (),
    ) -> Exchange[Added]:
        """Add an archive with the only root `cid`, and pin it, at `peers` if they are given.

        A pin replaces everything that is known about an earlier one. So that one is read first.

        With `whole`, the archive is small and in memory: it is sent at once.
        """
        known = yield from self._find(str(cid))
        settings = self._settings(info, known)
        if inline_block(cid) is not None:  # all of it is in the CID; there is no block to add
            yield from self._pin(str(cid), settings)
            return Added(cid=str(cid), duplicate=known is not None)
        query = {"format": "car", "stream-channels": "false", **settings}
        if known is not None:
            peers = peers or known.peers  # else a repeated upload may move it to other peers
        query |= _allocations(peers)
        form = FileForm([FormFile(PART_NAME, "", archive)], fields={})
        path = f"/add?{urlencode(query, errors='replace')}"
        reply = yield self.request("POST", path, **form.sending(on_sent, whole=whole))
        stored = read_root(self._checked(reply), self.token)
        if stored != cid:
            raise not_what_was_sent(stored)
        return Added(cid=str(cid), duplicate=known is not None)

    def pin(self, cid: str, info: PinInfo, peers: Sequence[str] = ()) -> Exchange[ClusterPin]:
        """Pin `cid`, or change its pin; the peers fetch the content later.

        A new pin is made at `peers`, if they are given.
        """
        known = yield from self.find(cid)
        if known is not None and not info.is_explicit and self._has_copies(known):
            return known
        found = cid if known is None else known.cid
        settings = self._settings(info, known)
        return (yield from self._pin(found, settings | _allocations(peers)))

    def pin_again(self, pin: ClusterPin, peers: Sequence[str]) -> Exchange[ClusterPin]:
        """Pin what is pinned already. Peers that gave up, or are gone, are tried or replaced.

        The cluster replaces a peer by one of `peers`, when it knows that it is gone.
        """
        return (yield from self._pin(pin.cid, _settings(pin) | _allocations(peers)))

    def update(
        self, cid: str, name: str | None, keyvalues: Mapping[str, Any] | None
    ) -> Exchange[ClusterPin]:
        """Change the name, the key-values or both of the pin of `cid`."""
        known = yield from self.find(cid)
        if known is None:
            raise not_pinned(cid)
        info = PinInfo(name=name or "", keyvalues=keyvalues or {}, given=name is not None)
        return (yield from self._pin(known.cid, _settings(_changed(known, info))))

    def _pin(self, cid: str, settings: Mapping[str, str]) -> Exchange[ClusterPin]:
        query = urlencode(settings, errors="replace")
        reply = self._checked((yield self.request("POST", f"/pins/{quote(cid)}?{query}")))
        value = read_object(reply, self.token)
        return read_pin(value, reply, self.token)

    def unpin(self, cid: str) -> Exchange[None]:
        """Remove the pin of `cid`.

        If the reply to an earlier attempt was lost, the pin may be gone already: then "not pinned"
        is success.
        """
        reply = yield self.request("DELETE", f"/pins/{quote(cid)}")
        if not CLUSTER_ERRORS.says_not_pinned(reply):
            read_object(self._checked(reply), self.token)
        elif not reply.reply_lost:
            raise not_pinned(cid)

    def find(self, cid: str) -> Exchange[ClusterPin | None]:
        """Return the pin of `cid`, or of the other version of it, which names the same content."""
        found = yield from self._find(cid)
        other = other_version(cid) if found is None else None
        return found if other is None else (yield from self._find(other))

    def _find(self, cid: str) -> Exchange[ClusterPin | None]:
        reply = yield self.request("GET", f"/allocations/{quote(cid)}")
        if CLUSTER_ERRORS.says_not_pinned(reply):
            return None
        value = read_object(self._checked(reply), self.token)
        return read_pin(value, reply, self.token)

    def states(self, cid: str) -> Exchange[PeerStates]:
        """Return the status of the pin of `cid` at each peer."""
        reply = self._checked((yield self.request("GET", f"/pins/{quote(cid)}")))
        value = read_object(reply, self.token)
        return read_states(value, reply, self.token)

    def with_states(self, pins: Iterable[ClusterPin]) -> Exchange[list[Pin]]:
        """Return at most `ASKED_AT_ONCE` pins with the status of each at each peer."""
        given = list(pins)
        cids = ",".join(pin.cid for pin in given)
        request = self.request("GET", f"/pins?{urlencode({'cids': cids})}", max_reply=MAX_STATES)
        reply = self._checked((yield request))
        lines = JSONLines()
        try:
            values = list(lines.feed(reply.body))
            lines.finish()
        except SerializationError:
            raise not_cluster(reply, self.token) from None
        found = {str(value.get("cid")): read_states(value, reply, self.token) for value in values}
        return [make_pin(pin, found.get(pin.cid)) for pin in given]

    def check_credentials(self) -> Exchange[None]:
        """Return if a peer accepts the token."""
        reply = self._checked((yield self.request("GET", "/id")))
        if not read_object(reply, self.token).get("cluster_peers"):
            raise not_cluster(reply, self.token)

    def list_request(self) -> Request:
        """Return the request for a stream of all pins, which `AllocationLines` reads."""
        return self.request("GET", "/allocations?filter=pin")

    def error(self, reply: Reply) -> Exception:
        """Return the error of a reply that is not a success."""
        return reply_error(reply, self.token)

    def request(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> Request:
        """Return a request without a peer: its address begins with the path."""
        fields: dict[str, str | Secret] = {**(headers or {}), **self._credential}
        return Request(method, path, fields, retried=RETRIED_HERE, **more)

    def _checked(self, reply: Reply) -> Reply:
        """Return `reply` if it is a success so far; raise its error otherwise."""
        if not reply.ok or reply.media_type != "application/json":
            raise self.error(reply)
        check_stream(reply, self.token)
        return reply

    def _has_copies(self, pin: ClusterPin) -> bool:
        wanted = self.options.copies, self.options.most_copies
        return wanted in {(None, None), (pin.copies, pin.most_copies)}

    def _settings(self, info: PinInfo, known: ClusterPin | None) -> dict[str, str]:
        """Return the settings of a pin: what is known, what the user gave, what is configured."""
        pin = NEW if known is None else known
        info = PinInfo(name=info.name, keyvalues=info.keyvalues, given=info.given or known is None)
        settings = _settings(_changed(pin, info))
        if self.options.copies is not None:
            settings["replication-min"] = str(self.options.copies)
            settings["replication-max"] = str(self.options.most_copies)
        return settings


class AllocationLines(PinLines[ClusterPin]):
    """Reads the stream of ``/allocations``."""

    def read(self, value: dict[str, Any]) -> ClusterPin:
        """Return the pin of a line."""
        return read_pin(value, Reply(200, {}), self._token)

    def wrong_api(self, reply: Reply) -> ProviderError:
        """Return the error for a list that is not that of IPFS Cluster."""
        return not_cluster(reply, self._token)

    def cut_off(self, reply: Reply) -> ProviderError:
        """Return the error for a list that is not complete."""
        return self.wrong_api(reply)


NEW: Final = ClusterPin("", "", {}, None, copies=0, most_copies=0, expires="", peers=())
"""What a pin has that does not exist yet; 0 copies are the cluster's own setting."""


def matches(pin: ClusterPin, wanted: PinFilter) -> bool:
    """Return whether `pin` is one of those that are wanted by name, key-values and time."""
    return (
        (wanted.name or "") in pin.name
        and wanted.fits(pin.keyvalues)
        and (wanted.since is None or wanted.since <= (pin.created or 0))
        and (wanted.until is None or (pin.created or 0) <= wanted.until)
    )


def not_pinned(cid: str) -> NotFoundError:
    """Return the error for a CID that is not pinned."""
    return NotFoundError(f"The current user has not pinned the cid: {cid}", status=404)


def _changed(pin: ClusterPin, info: PinInfo) -> ClusterPin:
    changes = {
        key: value if value is None else value_text(value) for key, value in info.keyvalues.items()
    }
    return replace(
        pin,
        name=info.name if info.given else pin.name,
        keyvalues=merged_keyvalues(pin.keyvalues, changes),
    )


def _allocations(peers: Sequence[str]) -> dict[str, str]:
    return {"user-allocations": ",".join(peers)} if peers else {}


def _settings(pin: ClusterPin) -> dict[str, str]:
    """Return everything that a pin request must repeat, because it replaces the pin."""
    settings = {"mode": "recursive", "name": pin.name}
    settings |= {f"meta-{key}": value for key, value in pin.keyvalues.items()}
    settings |= {"replication-min": str(pin.copies), "replication-max": str(pin.most_copies)}
    return settings | ({"expire-at": pin.expires} if pin.expires else {})
