"""A real node for a test or a notebook, on a port and over a folder of its own."""

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.config import ClientConfig
from holdfast.node.server import NodeServer
from holdfast.node.settings import NodeSettings, NodeToken
from holdfast.repository import Repository


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node that runs.

    Attributes:
        api_url: The address of its pinning API.
        gateway_url: The address of its gateway.
        token: A token that may do everything.
        repository: What it keeps.
    """

    api_url: str
    gateway_url: str
    token: str = field(repr=False)
    repository: Repository = field(repr=False)

    @property
    def config(self) -> ClientConfig:
        """The configuration for a client that talks to this node."""
        return ClientConfig(
            provider="pinning",
            provider_token=self.token,
            pin_api_url=self.api_url,
            gateway_url=self.gateway_url,
        )


@contextmanager
def running_node(
    path: "str | Path | None" = None, *, tokens: tuple[NodeToken, ...] = (), **settings: Any
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
    all_settings = NodeSettings(tokens=(NodeToken(token=token), *tokens), **settings)
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-node-") as folder,
        Repository(path if path is not None else folder) as repository,
    ):
        server = NodeServer(repository, all_settings)
        server.start()
        try:
            yield RunningNode(server.url, f"{server.url}/ipfs", token, repository)
        finally:
            server.stop()
