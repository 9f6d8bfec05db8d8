# WARNING: this file is generated from src/holdfast/_async/providers/cluster_pins.py
# by scripts/generate_sync.py. Change the original instead.
"""The pins of an IPFS Cluster: found, listed, changed and removed through any of its peers."""

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from holdfast._sync.providers.http import ListingProvider, read_lines
from holdfast._sync.providers.peers import Peers
from holdfast._sync.session import Session, read_whole
from holdfast.calls import Call, Clock
from holdfast.config import ClientConfig
from holdfast.config.checks import is_loopback
from holdfast.errors import ConfigError, NotFoundError, ProviderError
from holdfast.protocol.cluster import (
    ASKED_AT_ONCE,
    AllocationLines,
    ClusterAPI,
    matches,
    read_options,
)
from holdfast.protocol.cluster_replies import ClusterPin, make_pin, may_differ
from holdfast.protocol.http import Reply, Request
from holdfast.records import Pin, PinFilter, PinInfo

if TYPE_CHECKING:
    from holdfast._sync.transport import Response

NOTHING: Final = 204  # the status of an empty list


class ClusterPins(ListingProvider):
    """What the provider for IPFS Cluster does with pins."""

    def __init__(self, config: ClientConfig, *, session: Session | None = None) -> None:
        options = read_options(config.provider_options)
        _check_gateways(config)
        super().__init__(config, session=session)
        self._api = ClusterAPI(config.provider_token, options)
        self._peers = Peers(self._session, config.api_urls, may_differ)

    def fetch(self, request: Request, call: Call, *, skip: int = 0) -> Reply:
        """Send `request` to a peer, after the first `skip`; if it does not answer, to the next."""
        return self._peers.fetch(request, call, skip=skip)

    def unpin(self, cid: str, call: Call, /) -> None:
        """Unpin `cid`."""
        self.run(self._api.unpin(cid), call)

    def check_credentials(self, call: Call, /) -> None:
        """Return if a peer accepts the token."""
        self.run(self._api.check_credentials(), call)

    def pin(self, cid: str, info: PinInfo) -> Pin:
        """Pin `cid`, whose content the peers then fetch from the network."""
        with self.call("pin", cid) as call:
            pin = self.run(self._api.pin(cid, info), call)
            return make_pin(pin, self.run(self._api.states(pin.cid), call))

    def check_pin(self, pin: Pin) -> Pin:
        """Return a pin of `pin` as it is now; raise ProviderError if too many peers gave up."""
        with self.call("pin", pin.cid) as call:
            found = self.run(self._api.find(pin.cid), call)
            if found is None:
                raise NotFoundError(f"{pin.cid} was unpinned meanwhile")
            states = self.run(self._api.states(found.cid), call)
            if states.is_lost(found.copies):
                raise ProviderError(f"the cluster cannot pin {pin.cid}: {states.describe()}")
            return make_pin(found, states)

    def update_pin(self, cid: str, *, name: str | None, keyvalues: Mapping[str, Any] | None) -> Pin:
        """Change the name, the key-values or both of the pin of `cid`."""
        with self.call("update", cid) as call:
            pin = self.run(self._api.update(cid, name, keyvalues), call)
            return make_pin(pin, self.run(self._api.states(pin.cid), call))

    def stream_pins(self, wanted: PinFilter, limit: int | None, clock: Clock) -> Generator[Pin]:
        """Yield the pins that match `wanted`, in no order, as the cluster sends them.

        The list says nothing about the peers: they are asked for many pins at a time.
        """
        count = 0
        batches = self._batches(wanted, min(limit or ASKED_AT_ONCE, ASKED_AT_ONCE), clock)
        try:
            for batch in batches:
                with self.list_call(clock) as call:
                    pins = self.run(self._api.with_states(batch), call)
                for pin in pins:
                    yield pin
                    count += 1
                    if count == limit:
                        return
        finally:
            batches.close()

    def _batches(self, wanted: PinFilter, size: int, clock: Clock) -> Generator[list[ClusterPin]]:
        batch: list[ClusterPin] = []
        pins = self._all_pins(wanted, clock)
        try:
            for pin in pins:
                if matches(pin, wanted):
                    batch.append(pin)
                if len(batch) == size:
                    yield batch
                    batch = []
            if batch:
                yield batch
        finally:
            pins.close()

    def _all_pins(self, wanted: PinFilter, clock: Clock) -> Generator[ClusterPin]:
        """Yield the pin with the CID that is wanted, else all pins."""
        if wanted.cid is not None:
            with self.list_call(clock, wanted.cid) as call:
                found = self.run(self._api.find(wanted.cid), call)
            if found is not None:
                yield found
            return
        response = self._open_list(clock)
        if response is None:
            return
        pins = read_lines(response, AllocationLines(self.config.provider_token))
        try:
            for pin in pins:
                yield pin
        finally:
            pins.close()

    def _open_list(self, clock: Clock) -> "Response | None":
        """Return the reply with all pins, whose body is not read yet; None if there are none."""
        with self.list_call(clock) as call:
            response = self._peers.open(self._api.list_request(), call)
            reply = Reply(response.status, response.headers)
            if reply.status == 200 and reply.media_type == "application/json":
                return response
            try:
                if reply.status == NOTHING:
                    return None
                raise self._api.error(read_whole(response))
            finally:
                response.close()


def _check_gateways(config: ClientConfig) -> None:
    """Raise ConfigError if nothing says through which gateways content is read."""
    hosts = (urlsplit(url).hostname for url in config.api_urls)
    if config.gateway_url is None and not all(map(is_loopback, hosts)):
        raise ConfigError(
            "gateway_url is missing: name the gateways of the cluster's nodes, through which "
            "content is read, such as https://node1.example.com/ipfs"
        )
