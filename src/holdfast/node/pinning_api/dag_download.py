"""Download the blocks of one DAG from gateways, as a client does: as an archive, or one by one."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

from holdfast._sync.dag_export import DagExport
from holdfast._sync.reads.gateway_reader import GatewayReader
from holdfast._sync.session import Session
from holdfast._sync.transport import Transport
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.content.car import Block
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import ProviderError
from holdfast.protocol.gateway import Gateway, Gateways

MAX_BLOCKS: Final = 500_000  # blocks of one DAG
OVERHEAD: Final = 100  # bytes that count for a block besides its content


class DagTooLargeError(ProviderError):
    """The DAG is larger than the node accepts."""


class DagDownload:
    """Downloads DAGs from `gateways`, which are asked in order."""

    def __init__(self, gateways: tuple[str, ...]) -> None:
        config = ClientConfig()
        self._transport = Transport(config)
        session = Session(self._transport, config)
        peers = Gateways([Gateway(url.rstrip("/")) for url in gateways], session.avoided)
        maximum = config.max_unverified_bytes
        self._reader = GatewayReader(session, peers, verify=True, max_unverified=maximum)

    def blocks(self, cid: CID, *, max_bytes: int, ended: Callable[[], bool]) -> Iterator[Block]:
        """Yield the blocks of the DAG under `cid`, each once.

        Raise a `ClientError` if no gateway has them, or they are too many, or `ended`.
        """
        count = size = 0
        with closing(DagExport(self._reader, Reference(str(cid), cid))) as export:
            while (page := export.next_page(Call("pin", cid=str(cid)))) is not None:
                if ended():
                    raise ProviderError("The node is stopping")
                count += len(page)
                size += sum(len(data) + OVERHEAD for _, data in page)
                if size > max_bytes or count > MAX_BLOCKS:
                    raise DagTooLargeError(f"{cid} has too many bytes or blocks")
                yield from page

    def close(self) -> None:
        """End all requests."""
        self._transport.close()
