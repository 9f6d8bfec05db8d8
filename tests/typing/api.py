"""User code that must type-check: it is read by mypy, never run."""

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, assert_type

import holdfast.provider
from holdfast import AsyncClient, Client, ClientConfig, ClientRecord, Pin
from holdfast.provider import CID, Added, Call, Content, PinInfo, Progress


def configure() -> ClientConfig:
    config = ClientConfig(
        provider="pinning",
        provider_token="x",
        gateway_url=["https://a.example", "https://b.example"],
        timeouts=holdfast.Timeouts(read=5),
        retries=holdfast.Retries(attempts=1),
    )
    ClientConfig(gateway_url="https://a.example", timeouts={"read": 5})
    ClientConfig(provder="pinning")  # type: ignore[call-arg]
    return config.with_options(verify=False)


def blocking(config: ClientConfig, path: Path) -> None:
    with Client.init(config, verify=True) as client:
        assert_type(client, Client)
        assert_type(client.store({"a": 1}), ClientRecord[dict[str, int]])
        assert_type(client.store([1], holdfast.StoreOptions(label="x")).data, list[int] | None)
        assert_type(client.retrieve("cid"), Any)
        assert_type(client.upload(path, {"label": "x"}, name="a"), ClientRecord[None])
        with path.open("rb") as file:
            client.upload(file)
        client.upload(b"x", progress=lambda done, total: None)
        assert_type(client.download("cid", to=path, max_bytes=10), holdfast.Blob)
        assert_type(client.download_folder("cid", path, max_bytes=10), Path)
        assert_type(client.send("alice", "hi"), ClientRecord[holdfast.ClientMessage])
        assert_type(client.receive("cid"), holdfast.ClientMessage)
        assert_type(client.revoke("cid"), bool)
        assert_type(client.test_connection(), bool)
        assert_type(client.url("cid"), str)
        assert_type(client.pins(name="a", limit=5), list[Pin])
        assert_type(client.with_options(verify=False), Client)
        assert_type(client.store_many([1, 2]), holdfast.Outcomes[int, ClientRecord[int]])
        for outcome in client.upload_many([path]):
            assert_type(outcome, holdfast.Outcome[Path, ClientRecord[None]])
            assert_type(outcome.result().cid, str)
        client.upload_many([("a", b"1"), ("b", b"2")], concurrency=2)
        client.upload_many([1])  # type: ignore[type-var]
        with client.revoke_many(["cid"]) as revoked:
            assert_type([outcome.result() for outcome in revoked], list[bool])
        with client.open("cid") as file:
            assert_type(file, holdfast.ContentFile)
            assert_type(file.readline(), bytes)
        assert_type(client.provider, holdfast.StorageProvider)
        client.ls("cid")  # type: ignore[attr-defined]
    assert_type([Client.connect(name) for name in holdfast.connections()], list[Client])
    Client.connect("archive", verfy=True)  # type: ignore[call-arg]
    Client(holdfast.PinProvider(config))
    Client(holdfast.LocalProvider(config))
    Client(holdfast.AsyncPinProvider(config))  # type: ignore[arg-type]
    Client(path="store")  # type: ignore[arg-type]


async def awaited(config: ClientConfig, path: Path) -> None:
    async with await AsyncClient.init({"provider": "pinning", "providerToken": "x"}) as client:
        assert_type(await client.store(1), ClientRecord[int])
        assert_type(client.iter_pins(), AsyncIterator[Pin])
    async with AsyncClient.init(config, verify=True) as entered:
        assert_type(entered, AsyncClient)
        assert_type(await entered.upload(pieces()), ClientRecord[None])
        async for outcome in entered.upload_many([path]):
            assert_type(outcome, holdfast.Outcome[Path, ClientRecord[None]])
        async with entered.open("cid") as file:
            assert_type([line async for line in file], list[bytes])
        assert_type(await entered.open("cid"), holdfast.AsyncContentFile)
        AsyncClient.init(verfy=True)  # type: ignore[call-arg]
        entered.ls("cid")  # type: ignore[attr-defined]
        with entered:  # type: ignore[attr-defined]
            pass
    async with AsyncClient.connect("archive", verify=True) as named:
        assert_type(named, AsyncClient)
    AsyncClient(holdfast.AsyncPinProvider(config))


async def pieces() -> AsyncIterator[bytes]:
    yield b""


def content(path: Path) -> None:
    assert_type(holdfast.compute_cid(path, profile="unixfs-v0-2015"), str)
    assert_type(holdfast.compute_cid([b"a", b"b"]), str)
    assert_type(holdfast.verify(b"x", "cid"), bool)


class Listed(holdfast.BaseProvider):
    """A provider of a user, who writes the primitives and one operation."""

    def __init__(self, config: ClientConfig) -> None:
        super().__init__(config, reader=holdfast.provider.BlockReader(self._get_block))

    def _get_block(self, cid: CID) -> bytes:
        return bytes(cid)

    def add(self, content: Content, info: PinInfo, _: Call, progress: Progress) -> Added:
        assert isinstance(content, holdfast.provider.Source)
        root = self.import_content(content, lambda cid, block: None, progress)
        assert_type(info.keyvalues, Mapping[str, Any])
        return Added(cid=str(root.cid))

    def unpin(self, cid: str, _: Call) -> None: ...

    def check_credentials(self, call: Call) -> None:
        assert_type(call.deadline.left(), float | None)

    def list_pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        with self.call("pins") as call:
            assert_type(call, Call)
        return []


def pins(client: Client) -> None:
    assert_type(client.pin("cid", name="a", keyvalues={"b": 1}, wait=1.5), Pin)
    assert_type(client.update("cid", keyvalues={"b": None}), Pin)
    assert_type(client.iter_pins(cid="cid", since=datetime.now(UTC), until=5), Iterator[Pin])
    assert_type(client.pins(keyvalues={"b": 1}, limit=3, since="2026-01-31"), list[Pin])
    assert_type(client.usage(), holdfast.Usage)
    assert_type(client.pin("cid").state, Literal["queued", "pinning", "pinned"])
    assert_type(client.signed_url("cid", expires=timedelta(hours=1)), str)
    assert_type(client.signed_upload_url(expires=5, max_bytes=5, types=["image/*"]), str)
    assert_type(client.copy("cid", to=client), holdfast.Copied)
    assert_type(client.copy_many(["cid"], to=client), holdfast.Outcomes[str, holdfast.Copied])
    assert_type(
        client.copy_pins(to=client, journal="x", name="a"), holdfast.Outcomes[Pin, holdfast.Copied]
    )


class Counted(holdfast.provider.WrappingProvider):
    """A wrapper of a user."""

    def add(self, content: Content, info: PinInfo, call: Call, progress: Progress) -> Added:
        added = super().add(content, info, call, progress)
        assert_type(added, Added)
        return added


def providers(config: ClientConfig, storage: holdfast.StorageProvider) -> None:
    provider = Listed.from_config(config)
    assert_type(provider, Listed)
    Client(provider)
    Client(storage)
    wrapper = Counted(provider)
    assert_type(wrapper.supports("list_pins"), bool)
    assert_type(wrapper.list_pins(), list[Pin])
    assert_type(wrapper.require("pin").pin("cid", PinInfo(name="a")), Pin)
    assert_type(wrapper.import_car([b""]), list[str])


def handle(error: holdfast.errors.ClientError) -> float | None:
    if isinstance(error, holdfast.errors.RateLimitError):
        return error.retry_after
    if isinstance(error, holdfast.errors.ProviderError):
        assert_type(error.status, int | None)
    return None
