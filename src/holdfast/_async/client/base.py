"""What all parts of a client share: the provider, the configuration, opening and closing."""

from collections.abc import Mapping
from typing import Any, NoReturn, Self, Unpack
from weakref import WeakSet

from holdfast._async.opening import AsyncCloses, opens
from holdfast._async.runtime import run_blocking
from holdfast._async.workers import AsyncWorkGroup
from holdfast.config import ClientConfig, ConfigFields
from holdfast.config.wrapping import takes_secrets
from holdfast.content.reference import Reference
from holdfast.contract import AsyncStorageProvider
from holdfast.errors import ClientClosedError
from holdfast.registry import build_async_provider


class AsyncClientBase(AsyncCloses):
    """The provider of a client, its configuration, and its life from `init` to closing."""

    def __init__(
        self, provider: AsyncStorageProvider, *, config: ClientConfig | None = None
    ) -> None:
        self._passed = provider
        self._closed = False
        if not isinstance(provider, AsyncStorageProvider):
            del provider  # it may be a token, passed by mistake
            raise TypeError(
                f"{type(self._passed).__name__} does not implement AsyncStorageProvider; to "
                "make a client from a configuration, use AsyncClient.init(…)"
            )
        # A program should not wait for the modules of providers before it has one.
        from holdfast._async.providers.foreign import as_provider  # noqa: PLC0415

        self._provider = as_provider(provider)
        self._config = config or self._provider.config
        self._groups: WeakSet[AsyncWorkGroup[Any, Any]] = WeakSet()
        self._owns_provider = False

    @classmethod
    @opens
    @takes_secrets
    async def init(
        cls,
        config: ClientConfig | Mapping[str, Any] | None = None,
        /,
        **fields: Unpack[ConfigFields],
    ) -> Self:
        """Return a client for `config`: a `ClientConfig`, a mapping, or keywords, which override.

        Nothing is sent. Raise ConfigError for a wrong or missing field.
        """
        settings = ClientConfig.of(config, **fields)
        client = cls(build_async_provider(settings), config=settings)
        client._owns_provider = True
        return client

    @classmethod
    @opens
    @takes_secrets
    async def connect(cls, name: str, /, **changes: Unpack[ConfigFields]) -> Self:
        """Return a client for the connection `name` of the user's ``holdfast.toml``.

        The rules are those of ``--use`` on the command line: `changes` override the connection, and
        it overrides ``HOLDFAST_*`` variables and the other settings of the file. Tokens come from
        the connection or from `changes`, and another address does not get the connection's token.
        No project's file is read, and nothing is sent. Raise ConfigError for an unknown name, and
        for a wrong or missing field.

        Example:
            >>> async with AsyncClient.connect("disk", verify=False) as client:
            ...     print(client.config.provider, client.config.verify)
            local False
        """
        from holdfast.config.settings_files import connection_fields  # noqa: PLC0415

        return await cls.init(await run_blocking(connection_fields, name, changes))

    @property
    def provider(self) -> AsyncStorageProvider:
        """The provider that stores the content."""
        return self._passed

    @property
    def config(self) -> ClientConfig:
        """The configuration of the client."""
        return self._config

    @takes_secrets
    def with_options(self, **changes: Unpack[ConfigFields]) -> Self:
        """Return a client with other options and the same connections. Close this client only.

        Example:
            >>> record = await client.store([1, 2, 3])
            >>> await client.with_options(verify=False).retrieve(record.cid)
            [1, 2, 3]
        """
        config = self._config.with_options(**changes)
        provider = self._provider.require("with_config").with_config(config)
        client = type(self)(provider, config=config)
        client._groups = self._groups  # noqa: SLF001 - our own
        return client

    async def test_connection(self) -> bool:
        """Return True if the provider accepts the credentials; raise an error otherwise.

        Example:
            >>> await client.test_connection()
            True
        """
        self._check_open()
        await self._provider.test_authentication()
        return True

    def url(self, cid: str) -> str:
        """Return a link to `cid` that can be shared; no request is sent.

        Example:
            >>> record = await client.store([1, 2, 3])
            >>> client.url(record.cid)
            'ipfs://bafkreifgcxxk5yq54ulz3yea32gdauwi3kibcocanotryogagkcf67ku6q'
        """
        return self._provider.url(Reference.parse(cid))

    async def aclose(self) -> None:
        """Close the connections of a client that `init` made. A second time does nothing.

        Of `store_many` and the like, what is under way is waited for.
        """
        self._closed = True
        try:
            for group in list(self._groups):
                await group.finish(ClientClosedError())
        finally:
            if self._owns_provider:
                await self._passed.aclose()

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<{type(self).__name__}: {type(self._passed).__name__}{state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled: it holds connections and a token; "
            "make one with init() where it is needed"
        )

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError
