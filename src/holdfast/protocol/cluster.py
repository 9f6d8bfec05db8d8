"""The REST API of IPFS Cluster: its requests, and how their replies are read.

The addresses of requests begin with a path: the provider chooses the peer. A reply with the status
200 means that the cluster has written down what to do. Only the peers say whether it is done.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote, urlencode

from holdfast.config.secret import Secret
from holdfast.content.blocks import inline_block
from holdfast.content.cid import CID
from holdfast.content.unixfs.layouts import not_what_was_sent
from holdfast.errors import ConfigError, NotFoundError, ProviderError, SerializationError
from holdfast.protocol import cluster_replies
from holdfast.protocol.cluster_replies import CLUSTER_ERRORS, ClusterPin, PeerStates
from holdfast.protocol.http import RETRIED, Reply, Request, authorization
from holdfast.protocol.multipart import FileForm, FileSource, FormFile
from holdfast.protocol.pin_api import Exchange
from holdfast.protocol.pin_lines import JSONLines, PinLines, check_stream
from holdfast.protocol.pin_rows import other_version
from holdfast.records import Added, Pin, PinFilter, PinInfo, merged_keyvalues, value_text

PART_NAME: Final = "archive"  # the cluster needs a name, and does not keep it
ASKED_AT_ONCE: Final = 50  # pins in one request for states; their CIDs are in its address
MAX_STATES: Final = 16 << 20  # bytes of the reply; each pin has some 300 for each peer
# The cluster answers 500 to whatever it cannot do, so only the others are worth another attempt.
RETRIED_HERE: Final = frozenset(RETRIED - {500})
EVERYWHERE: Final = -1  # the number of copies that stands for all peers
OPTIONS: Final = ("replication_min", "replication_max", "wait")


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
        stored = cluster_replies.read_root(self._checked(reply), self.token)
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
        value = cluster_replies.read_object(reply, self.token)
        return cluster_replies.read_pin(value, reply, self.token)

    def unpin(self, cid: str) -> Exchange[None]:
        """Remove the pin of `cid`.

        If the reply to an earlier attempt was lost, the pin may be gone already: then "not pinned"
        is success.
        """
        reply = yield self.request("DELETE", f"/pins/{quote(cid)}")
        if not CLUSTER_ERRORS.says_not_pinned(reply):
            cluster_replies.read_object(self._checked(reply), self.token)
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
        value = cluster_replies.read_object(self._checked(reply), self.token)
        return cluster_replies.read_pin(value, reply, self.token)

    def states(self, cid: str) -> Exchange[PeerStates]:
        """Return the status of the pin of `cid` at each peer."""
        reply = self._checked((yield self.request("GET", f"/pins/{quote(cid)}")))
        value = cluster_replies.read_object(reply, self.token)
        return cluster_replies.read_states(value, reply, self.token)

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
            raise cluster_replies.not_cluster(reply, self.token) from None
        found = {
            str(value.get("cid")): cluster_replies.read_states(value, reply, self.token)
            for value in values
        }
        return [cluster_replies.make_pin(pin, found.get(pin.cid)) for pin in given]

    def check_credentials(self) -> Exchange[None]:
        """Return if a peer accepts the token."""
        reply = self._checked((yield self.request("GET", "/id")))
        if not cluster_replies.read_object(reply, self.token).get("cluster_peers"):
            raise cluster_replies.not_cluster(reply, self.token)

    def list_request(self) -> Request:
        """Return the request for a stream of all pins, which `AllocationLines` reads."""
        return self.request("GET", "/allocations?filter=pin")

    def error(self, reply: Reply) -> Exception:
        """Return the error of a reply that is not a success."""
        return cluster_replies.reply_error(reply, self.token)

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
        return cluster_replies.read_pin(value, Reply(200, {}), self._token)

    def wrong_api(self, reply: Reply) -> ProviderError:
        """Return the error for a list that is not that of IPFS Cluster."""
        return cluster_replies.not_cluster(reply, self._token)

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
