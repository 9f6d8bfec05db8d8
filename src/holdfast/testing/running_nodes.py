"""A real node for a test or a notebook, on a port and over a folder of its own."""

import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

from holdfast.config import ClientConfig, Retries
from holdfast.node.node_server import NodeServer, page_url
from holdfast.node.settings import NodeSettings, NodeToken
from holdfast.repository import Repository
from holdfast.testing.faults import Corruption, Cut, Delay, Failure, Faults, Part

# Tests of failures should not wait as long as a busy service asks for: a `Retry-After` of a second
# or more is the error at once.
QUICK: Final = Retries(base=0.01, cap=0.1, max_retry_after=0.1)
CACHE_BYTES: Final = 4 << 20  # less than usual: it counts as memory of the test's process


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node that runs, and that fails as it is told.

    Each of the `…_next` methods spoils replies to come, the next one or as many as `times` says.
    `on` says to which requests: those to the pinning ``"api"``, to the ``"gateway"``, or to
    ``"any"``. A request meets one fault at the most, the one that waits longest. A fault is used up
    by the reply that it spoils: a cut or a corruption waits for a body that is long enough, and
    what was asked for after it waits too.

    Attributes:
        api_url: The address of its pinning API.
        gateway_url: The address of its gateway.
        token: A token that may do everything.
        repository: What it keeps.
        config: The configuration for a client that talks to this node. Its retries wait hundredths
            of a second. What interrupted downloads leave behind goes away with the node.

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
    _faults: Faults = field(repr=False)

    @property
    def page_url(self) -> str:
        """The address of its page, with the token: open it to see what your code has pinned."""
        return page_url(self.api_url, self.token)

    def fail_next(
        self,
        *,
        status: int = 503,
        times: int = 1,
        on: Part = "any",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Refuse requests with `status`; they do nothing.

        `body` is sent as JSON, say the service's words; bytes as they are, say the page of a proxy.

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
        fault = Failure.of(status=status, body=body, headers=headers or {}, on=on)
        self._faults.add(fault, times)

    def delay_next(self, seconds: float, *, times: int = 1, on: Part = "any") -> None:
        """Let requests wait for `seconds` before the node has them.

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
        self._faults.add(Delay(seconds=seconds, on=on), times)

    def corrupt_next(self, *, after: int = 0, times: int = 1, on: Part = "gateway") -> None:
        """Reply with wrong bytes in place of the right ones, as many, from byte `after` on.

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
        self._faults.add(Corruption(after=after, on=on), times)

    def cut_next(self, *, after: int = 0, times: int = 1, on: Part = "any") -> None:
        """Do what is asked for, then end the connection after `after` bytes of the reply's body.

        After as many as there are, the reply is whole, and the connection no good for another.

        Example:
            >>> from holdfast import Client
            >>> with running_node() as node, Client.init(node.config) as client:
            ...     record = client.upload(b"hello")
            ...     node.cut_next(after=2)
            ...     client.download(record.cid).read()  # asks again, for the rest
            b'hello'
        """
        self._faults.add(Cut(after=after, on=on), times)

    def heal(self) -> None:
        """Drop the faults that are left, and forget the requests that came.

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
        """How many faults have spoilt no reply yet: 0, when all that was to go wrong did.

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
        """The requests that came, in order: method, path and query.

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


@contextmanager
def running_node(
    path: "str | Path | None" = None,
    *,
    tokens: tuple[NodeToken, ...] = (),
    **settings: Unpack[Settings],
) -> Iterator[RunningNode]:
    """A node on this machine, for as long as the block lasts.

    Args:
        path: The folder of its repository; without one it is a temporary folder.
        tokens: Further tokens, say with fewer scopes.
        settings: Further fields of `holdfast.node.settings.NodeSettings`.

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
    faults = Faults()
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-node-") as folder,
        Repository(path if path is not None else Path(folder, "store")) as repository,
    ):
        server = NodeServer(repository, all_settings, around=faults.around)
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
            yield RunningNode(server.url, gateway_url, token, repository, config, faults)
        finally:
            faults.stop()
            server.stop()
