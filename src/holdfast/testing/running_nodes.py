"""A real node for a test or a notebook, with its own port and folder."""

import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

from holdfast.config import ClientConfig, Retries
from holdfast.node.node_server import NodeServer, page_url
from holdfast.node.settings import NodeSettings, NodeToken
from holdfast.repository import Repository
from holdfast.testing import faults
from holdfast.testing.faults import Part

# Short waits, so that tests of errors are quick. A `Retry-After` of a second or more is not waited
# for, but raises the error at once.
QUICK: Final = Retries(base=0.01, cap=0.1, max_retry_after=0.1)
CACHE_BYTES: Final = 4 << 20  # smaller than the default, because it is memory of the test's process


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A running node that can inject faults into its replies.

    Each `…_next` method adds a fault for the next `times` replies. `on` selects the requests: those
    to the ``"api"``, to the ``"gateway"``, or to ``"any"``. Some take a `method` too, such as
    ``"PATCH"``. A request gets at most one
    fault, the oldest that matches it. A fault is used up by the reply that it changes. A cut or a
    corruption stays until a reply has a body that is long enough, and later faults wait for it.

    Attributes:
        api_url: The URL of the pinning API.
        gateway_url: The URL of the gateway.
        token: A token with all scopes.
        repository: The repository of the node.
        config: The configuration for a client of this node. Its retries wait hundredths of a
            second. Partial downloads are deleted with the node.

    Example:
        >>> from holdfast import Client
        >>> with running_node() as node, Client.init(node.config) as client:
        ...     node.fail_next(status=503, times=2)
        ...     client.test_connection()  # is sent three times
        ...     node.requests[-1], len(node.requests)
        True
        ('GET /data/testAuthentication', 3)
    """

    api_url: str
    gateway_url: str
    token: str = field(repr=False)
    repository: Repository = field(repr=False)
    config: ClientConfig = field(repr=False)
    _faults: faults.FaultQueue = field(repr=False)

    @property
    def page_url(self) -> str:
        """The URL of its page, with the token. Open it to see what your code has pinned."""
        return page_url(self.api_url, self.token)

    def fail_next(
        self,
        *,
        status: int = 503,
        times: int = 1,
        on: Part = "any",
        method: str | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Reply to the next requests with an error `status`; the node does not receive them.

        `body` is sent as JSON, such as an error of the service. Bytes are sent unchanged, such as
        the error page of a proxy.

        Example:
            >>> from holdfast import Client, errors
            >>> with running_node() as node, Client.init(node.config) as client:
            ...     node.fail_next(status=402, body={"error": "the plan is used up"}, on="api")
            ...     try:
            ...         client.store([1, 2, 3])
            ...     except errors.ProviderError as error:
            ...         print(error)
            the plan is used up
        """
        fields = headers or {}
        fault = faults.ErrorReply.of(status=status, body=body, headers=fields, on=on, method=method)
        self._faults.add(fault, times)

    def delay_next(self, seconds: float, *, times: int = 1, on: Part = "any") -> None:
        """Wait for `seconds` before the node receives the next requests.

        Example:
            >>> from holdfast import Client, errors
            >>> with running_node() as node:
            ...     node.delay_next(10, times=4)
            ...     with Client.init(node.config, timeouts={"total": 0.1}) as client:
            ...         try:
            ...             client.test_connection()
            ...         except errors.RequestTimeoutError as error:
            ...             print(error.name)
            RequestTimeoutError
        """
        self._faults.add(faults.Delay(seconds=seconds, on=on), times)

    def corrupt_next(self, *, after: int = 0, times: int = 1, on: Part = "gateway") -> None:
        """Replace the bytes of the next replies by wrong ones, from byte `after` on.

        Example:
            >>> from holdfast import Client, errors
            >>> with running_node() as node, Client.init(node.config) as client:
            ...     record = client.upload(b"hello")
            ...     node.corrupt_next()
            ...     try:
            ...         client.download(record.cid)
            ...     except errors.VerificationError as error:
            ...         print(error.name)
            VerificationError
        """
        self._faults.add(faults.BodyFault(after=after, cuts=False, on=on), times)

    def cut_next(self, *, after: int = 0, times: int = 1, on: Part = "any") -> None:
        """Process the next requests, but close the connection after `after` bytes of the body.

        If the body has exactly `after` bytes, the reply is complete and the connection is closed.

        Example:
            >>> from holdfast import Client
            >>> with running_node() as node, Client.init(node.config) as client:
            ...     record = client.upload(b"hello")
            ...     node.cut_next(after=2)
            ...     client.download(record.cid).read()  # asks again, for the rest
            b'hello'
        """
        self._faults.add(faults.BodyFault(after=after, cuts=True, on=on), times)

    def lose_next(self, *, times: int = 1, on: Part = "any", method: str | None = None) -> None:
        """Process the next requests, but close the connection without a reply.

        Example:
            >>> from holdfast import Client
            >>> with running_node() as node, Client.init(node.config) as client:
            ...     node.lose_next(method="POST")
            ...     record = client.upload(b"hello")  # it is sent again
            ...     len(node.requests)
            2
        """
        self._faults.add(faults.LostReply(on=on, method=method), times)

    def change_next(
        self,
        *,
        headers: Mapping[str, str] | None = None,
        change: Callable[[bytes], bytes] | None = None,
        times: int = 1,
        on: Part = "any",
        method: str | None = None,
    ) -> None:
        """Process the next requests, but reply with other `headers`, or with a changed body.

        Example:
            >>> from holdfast import Client
            >>> with running_node() as node, Client.init(node.config) as client:
            ...     node.change_next(change=lambda body: body.replace(b"bafkrei", b"bafkqei"))
            ...     client.store([1, 2, 3]).cid[:7]
            'bafkqei'
        """
        fault = faults.ChangedReply(on=on, method=method, headers=headers or {}, change=change)
        self._faults.add(fault, times)

    def heal(self) -> None:
        """Remove the remaining faults and the recorded requests.

        Example:
            >>> with running_node() as node:
            ...     node.fail_next(times=3)
            ...     node.heal()
            ...     node.faults_left, node.requests
            (0, [])
        """
        self._faults.clear()

    @property
    def faults_left(self) -> int:
        """The number of faults that were not applied yet: 0 when all were.

        Example:
            >>> from holdfast import Client
            >>> with running_node() as node, Client.init(node.config) as client:
            ...     record = client.upload(b"short")
            ...     node.cut_next(after=1000)
            ...     blob = client.download(record.cid)
            ...     node.faults_left
            1
        """
        return self._faults.left

    @property
    def requests(self) -> list[str]:
        """The requests so far, in order: method, path and query.

        Example:
            >>> from holdfast import Client
            >>> with running_node() as node, Client.init(node.config) as client:
            ...     record = client.store([1, 2, 3])
            ...     node.requests
            ['POST /pinning/pinJSONToIPFS']
        """
        return self._faults.requests


class Settings(TypedDict, total=False):
    """The fields of `holdfast.node.settings.NodeSettings` besides its tokens, as keywords."""

    rate_limit: int | None
    gateways: tuple[str, ...]
    max_json: int
    max_upload: int
    idle_seconds: float
    cache_bytes: int
    v3_profile: str
    pretend_pinned: bool


@contextmanager
def running_node(
    path: "str | Path | None" = None,
    *,
    tokens: tuple[NodeToken, ...] = (),
    **settings: Unpack[Settings],
) -> Iterator[RunningNode]:
    """Run a node on this machine while the ``with`` block runs.

    Args:
        path: The folder of its repository; by default a temporary folder.
        tokens: More tokens, for example with fewer scopes.
        settings: Other fields of `holdfast.node.settings.NodeSettings`.

    Example:
        >>> from holdfast import Client
        >>> with running_node() as node, Client.init(node.config) as client:
        ...     record = client.store({"hello": "world"})
        ...     client.retrieve(record.cid)
        {'hello': 'world'}
    """
    token = secrets.token_urlsafe(24)
    settings.setdefault("cache_bytes", CACHE_BYTES)
    all_settings = NodeSettings(tokens=(NodeToken(token=token), *tokens), **settings)
    queue = faults.FaultQueue()
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-node-") as folder,
        Repository(path if path is not None else Path(folder, "store")) as repository,
    ):
        server = NodeServer(repository, all_settings, around=queue.around)
        gateway_url = f"{server.url}/ipfs"
        config = ClientConfig(
            provider="pinning",
            provider_token=token,
            pin_api_url=server.url,
            gateway_url=gateway_url,
            cache_path=Path(folder, "cache"),
            retries=QUICK,
        )
        try:
            server.start()
            yield RunningNode(server.url, gateway_url, token, repository, config, queue)
        finally:
            queue.stop()
            server.stop()
