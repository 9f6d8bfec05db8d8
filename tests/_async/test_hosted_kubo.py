"""A hosted Kubo, which has a part of the RPC API: what works, and what is said of the rest.

On a stand-in over a real repository, and on a real Kubo behind a proxy that hides all other calls.
"""

import os
from types import SimpleNamespace

import pytest

from holdfast import AsyncClient, compute_cid
from holdfast.content.cid import CID
from holdfast.errors import AuthenticationError, NotFoundError, ProviderError, UnsupportedError
from holdfast.repository import Repository
from holdfast.testing import Scripted, ScriptedServer, forward_to
from tests.hosted_kubo import (
    CALLS,
    MISSING,
    HostedKubo,
    command_of,
    hosted,
    nameless,
    only_five_calls,
)
from tests.support import HELLO_CID, NOBODY_HAS, query_of

HTML = {"Content-Type": "text/html"}


@pytest.fixture(params=["stand-in", pytest.param("kubo", marks=pytest.mark.slow)])
def service(request):
    """The server, the configuration of its clients, and a gateway that records its requests."""
    if request.param == "kubo":
        kubo = request.getfixturevalue("kubo")
        script, gateway_url = only_five_calls(nameless(kubo)), kubo.gateway_url
    else:
        node = request.getfixturevalue("empty_node")
        script, gateway_url = HostedKubo(node.repository), node.gateway_url
    with (
        ScriptedServer(forward_to(gateway_url)) as gateway,
        hosted(script, f"{gateway.url}/ipfs") as (server, config),
    ):
        yield SimpleNamespace(server=server, config=config, gateway=gateway)
    assert {command_of(request) for request in server.requests} <= {*CALLS, "version"}
    assert all("authorization" not in request.headers for request in gateway.requests)


@pytest.fixture
def repository(memory_folder):
    with Repository(memory_folder / "store") as repository:
        yield repository


@pytest.fixture
async def client(service):
    async with AsyncClient.init(service.config) as client:
        yield client


async def test_what_is_stored_is_read_through_the_gateway(client, salt):
    assert await client.test_connection() is True
    record = await client.store({"hello": salt})
    assert record.cid == compute_cid(f'{{"hello":"{salt}"}}'.encode())
    assert await client.retrieve(record.cid) == {"hello": salt}
    data = salt.encode() * 100_000
    file = await client.upload(data, name="salt.txt")
    assert (file.cid, file.duplicate) == (compute_cid(data), False)
    assert (await client.upload(data)).duplicate is True
    assert (await client.download(file.cid)).read() == data
    async with client.open(file.cid) as opened:
        opened.seek(1_000_000)
        assert await opened.read(5) == data[1_000_000:1_000_005]
    stream = await client.upload(iter([data, b"and more"]))
    assert stream.cid == compute_cid(data + b"and more")
    note = await client.send("alice", salt)
    assert (await client.receive(note.cid)).payload == salt
    values = [outcome.result().cid async for outcome in client.upload_many([b"1", b"2", b"3"])]
    cids = {record.cid, file.cid, stream.cid, note.cid, *values}
    assert cids <= {pin.cid for pin in await client.pins()}
    for cid in cids:
        assert await client.revoke(cid) is True
    assert not cids & {pin.cid for pin in await client.pins()}
    with pytest.raises(NotFoundError, match="not pinned"):
        await client.revoke(file.cid)


async def test_a_folder_is_stored_and_downloaded(client, salted_folder, tmp_path):
    record = await client.upload(salted_folder)
    assert record.cid == compute_cid(salted_folder)
    entries = await client.entries(record.cid)
    assert {entry.name for entry in entries} == {path.name for path in salted_folder.iterdir()}
    copy = await client.download_folder(record.cid, tmp_path / "copy", symlinks=True)
    assert compute_cid(copy) == record.cid


async def test_a_server_that_keeps_no_names_says_so_where_names_are_needed(client, salt):
    record = await client.upload(salt.encode(), name="salt.txt")
    (pin,) = await client.pins(cid=record.cid)
    assert (pin.name, pin.size, pin.created) == ("", None, None)
    for call in (
        lambda: client.update(record.cid, name="salt"),
        lambda: client.pins(name="salt"),
    ):
        with pytest.raises(UnsupportedError, match="does not store pin names: leave name out"):
            await call()
    assert await client.pins(cid=record.cid, name="salt") == []
    with pytest.raises(UnsupportedError, match="does not store key-values"):
        await client.update(record.cid, keyvalues={"a": 1})


async def test_content_that_the_server_has_is_pinned_by_its_cid(client, salt):
    record = await client.store([salt])
    await client.revoke(record.cid)
    assert (await client.pin(record.cid, name="again")).cid == record.cid
    assert [pin.cid for pin in await client.pins(cid=record.cid)] == [record.cid]
    with pytest.raises(NotFoundError):
        await client.pin(NOBODY_HAS)


async def test_pins_are_copied_to_it_and_from_it(client, service, source, target, salt):
    """A journal of the first copy is believed by the second, and a lost name is reported."""
    cids = [(await source.store([salt, n], name=f"pin {n}")).cid for n in range(3)]
    outcomes = [outcome async for outcome in source.copy_pins(to=client)]
    copies = [outcome.result() for outcome in outcomes]
    assert {(copied.how, copied.dropped) for copied in copies} == {("archive", ("name",))}
    again = await source.copy(cids[0], to=client)
    assert (again.duplicate, again.dropped) == (True, ("name",))
    sent = [request.body for request in service.server.requests]
    assert sum(b"dag-" in body or b"roots" in body for body in sent) == 3  # each archive once
    for cid in cids:
        assert (await client.copy(cid, to=target)).how == "archive"
    assert {pin.cid for pin in await target.pins()} == set(cids)
    assert [await target.retrieve(cid) for cid in cids] == [[salt, n] for n in range(3)]


@pytest.mark.parametrize(
    "missing",
    [MISSING, Scripted(status=405), Scripted(status=404, headers=HTML, body=b"<html>nginx</html>")],
)
async def test_without_a_gateway_the_missing_call_is_named(repository, missing, tmp_path):
    """What stores content works all the same."""
    with hosted(HostedKubo(repository, missing), None) as (_, config):
        async with AsyncClient.init(config) as client:
            cid = (await client.store([1])).cid
            for call in (
                client.test_connection,
                lambda: client.retrieve(cid),
                lambda: client.download(cid, to=tmp_path / "x"),
                lambda: client.download_folder(cid, tmp_path / "y"),
                lambda: client.entries(cid),
                lambda: client.stat(cid),
                lambda: client.open(cid),
            ):
                with pytest.raises(UnsupportedError) as caught:
                    await call()
                assert str(caught.value) == (
                    "the server does not have block/get of Kubo's RPC API: set gateway_url to read "
                    "through a gateway, or check pin_api_url"
                )


async def test_a_server_with_blocks_is_read_without_a_gateway(repository):
    """As services have it: `block/get` and `version`, but not `cat` and `dag/export`."""
    stand_in = HostedKubo(repository)

    def script(request):
        match command_of(request):
            case "version":
                return Scripted(body={"Version": "0.43.0"})
            case "block/get" if cid := query_of(request).get("arg"):
                return Scripted(body=repository.block(CID.parse(cid)))
            case command if not query_of(request) and command not in ("cat", "dag/export"):
                return Scripted(status=422)  # the argument is missing
        return stand_in(request)

    with hosted(script, None) as (server, config):
        async with AsyncClient.init(config) as client:
            data = os.urandom(5_000_000)
            cid = (await client.upload(data)).cid
            for _ in range(2):
                assert (await client.download(cid)).read() == data
                exported = [piece async for piece in client.provider.export_archive(cid)]
                assert sum(map(len, exported)) > len(data)
            asked = [command_of(request) for request in server.requests]
            assert (asked.count("dag/export"), asked.count("cat")) == (1, 1)  # found out once
            assert await client.test_connection() is True


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b'{"Keys":{"%s":{"Type":"recursive"}}}', 1),
        (b'{"Keys":{"%s":null}}\n', 1),
        (b'{"Cid":"%s"}\n{"Cid":"%s"}', 2),
        (b'{"Keys":{}}', 0),
        (b'{"Keys":null}', 0),
        (b"\n", 0),
    ],
)
async def test_a_list_may_be_one_object_or_lines(server, body, count, chunked):
    server.reply(200, body.replace(b"%s", HELLO_CID.encode()), chunked=chunked)
    async with AsyncClient.init(provider="kubo", pin_api_url=server.url) as client:
        assert [pin.cid for pin in await client.pins()] == [HELLO_CID] * count


@pytest.mark.parametrize(
    "body", [b'{"Keys":[1]}', b'{"Keys":{"x":{}}}', b'{"Keys":{"%s":{}', b'{"Keys":"%s"}']
)
async def test_a_list_of_another_form_is_an_error(server, body):
    for _ in range(2):
        server.reply(200, body.replace(b"%s", HELLO_CID.encode()))
    async with AsyncClient.init(provider="kubo", pin_api_url=server.url) as client:
        for cid in (None, HELLO_CID):
            with pytest.raises(ProviderError, match="Kubo"):
                await client.pins(cid=cid)


@pytest.mark.parametrize(
    ("status", "reply"),
    [
        (200, {"Keys": {}}),
        (200, {"Keys": {NOBODY_HAS: {"Type": "recursive"}}}),  # it lists all pins
        (404, {"Message": f"path '{HELLO_CID}' is not pinned"}),
    ],
)
async def test_a_cid_that_is_not_pinned_may_be_an_empty_list_or_404(server, status, reply):
    async with AsyncClient.init(provider="kubo", pin_api_url=server.url) as client:
        for _ in range(2):
            server.reply(status, reply)
        assert await client.pins(cid=HELLO_CID) == []


async def test_a_wrong_token_is_an_authentication_error(service):
    async with AsyncClient.init(service.config.with_options(provider_token="x")) as client:
        for call in (client.test_connection, client.pins, lambda: client.store([1])):
            with pytest.raises(AuthenticationError):
                await call()


@pytest.mark.parametrize("command", CALLS)
async def test_a_server_that_lacks_a_call_that_is_needed(repository, command, tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    stand_in = HostedKubo(repository)
    calls = {
        "add": lambda client: client.store([1]),
        "dag/import": lambda client: client.upload(tmp_path),
        "pin/add": lambda client: client.pin(HELLO_CID),
        "pin/ls": lambda client: client.pins(),
        "pin/rm": lambda client: client.revoke(HELLO_CID),
    }
    script = lambda request: MISSING if command_of(request) == command else stand_in(request)  # noqa: E731
    with hosted(script, "http://127.0.0.1:9") as (_, config):
        async with AsyncClient.init(config) as client:
            with pytest.raises(ProviderError) as caught:
                await calls[command](client)
    words = f"the server does not have {command} of Kubo's RPC API: check that pin_api_url is its "
    assert str(caught.value).startswith(words)
    assert caught.value.status == 404
