"""What the replies of the REST API of IPFS Cluster mean."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.errors import ClientError, InvalidCIDError, ProviderError
from holdfast.protocol import json_text
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.json_text import text_at
from holdfast.protocol.status_errors import CLASSES, ErrorTable, failure, one_line, provider_error
from holdfast.records import Pin, PinState

CLUSTER_ERRORS: Final = ErrorTable(
    texts=(("message",),),
    classes=CLASSES,
    not_pinned=frozenset({404}),
    phrases=("not part of the pinset",),
)
TOO_LONG: Final = frozenset({414, 431})  # the statuses for a request whose address is too long
NO_TIME: Final = "0001-01-01T00:00:00Z"  # how Go writes that there is no time

REFUSALS: Final = (
    b"not enough peers to allocate",
    b"replication",
    b"only CAR files with a single root",
    b"empty car",
    b"content integrity",
    b"ExpireAt",
)
"""What the cluster says with status 500 about a write that no peer would accept."""

PINNED: Final = "pinned"
QUEUED: Final = "pin_queued"
FAILED: Final = "pin_error"
NOT_ALLOCATED: Final = "remote"  # the peer is not to keep it
UNREACHABLE: Final = "cluster_error"  # the peer, or its Kubo
PROBLEMS: Final = frozenset({FAILED, UNREACHABLE, "unpinned", "unexpectedly_unpinned", "error"})


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
