"""What is pinned, as the client lists it: at the node, in the embedded store, and page by page."""

from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast import AsyncClient, Pin
from holdfast.content.cid import CID
from holdfast.errors import AuthenticationError, ClientClosedError, ConfigError, ProviderError
from holdfast.testing import Scripted, ScriptedServer
from tests.support import HELLO_CID, TOKEN, config_for


def row(number):
    """A row as the service writes it, of the pin with this number."""
    return {
        "id": f"id-{number}",
        "ipfs_pin_hash": str(CID.of_raw(str(number).encode())),
        "size": number,
        "user_id": "user",
        "date_pinned": "2024-07-11T23:33:27.665Z",
        "date_unpinned": None,
        "metadata": {"name": f"name {number}", "keyvalues": {"n": number}},
        "regions": [],
        "mime_type": "text/plain",
        "number_of_files": 2,
    }


def pages_of(rows):
    """A script that gives `rows` as the service does, at most 1000 at a time."""

    def script(request):
        query = parse_qs(urlsplit(request.target).query)
        start, count = int(query["pageOffset"][0]), int(query["pageLimit"][0])
        return Scripted(body={"rows": rows[start : start + min(count, 1000)]})

    return script


async def test_pins_of_the_node(node):
    async with await AsyncClient.init(node.config) as client:
        first = await client.upload(b"1", name="One.txt")
        second = await client.upload(b"22", name="two & [three].txt")
        assert await client.pins() == node.repository.pins()
        assert [pin.cid for pin in await client.pins()] == [second.cid, first.cid]
        assert [pin.cid for pin in await client.pins(name="one")] == [first.cid]
        assert [pin.cid for pin in await client.pins(name="& [three]")] == [second.cid]
        assert await client.pins(name="nothing of the kind") == []
        assert [pin.cid for pin in await client.pins(limit=1)] == [second.cid]
        await client.revoke(second.cid)
        (left,) = await client.pins()
        assert (left.cid, left.name, left.size) == (first.cid, "One.txt", 1)


async def test_pins_of_the_embedded_store(tmp_path):
    async with await AsyncClient.init(path=tmp_path) as client:
        record = await client.upload(b"1", name="one.txt")
        await client.upload(b"2", name="two.txt")
        (pin,) = await client.pins(name="ONE")
        assert (pin.cid, pin.name) == (record.cid, "one.txt")
        assert len(await client.pins(limit=1)) == 1


async def test_a_row_becomes_a_pin(server, client):
    server.reply(200, {"rows": [row(7)]})
    assert await client.pins(name="a b") == [
        Pin(
            id="id-7",
            cid=str(CID.of_raw(b"7")),
            name="name 7",
            keyvalues={"n": 7},
            size=7,
            files=2,
            type="text/plain",
            created=1720740807665,
        )
    ]
    (request,) = server.requests
    assert (request.method, urlsplit(request.target).path) == ("GET", "/data/pinList")
    assert parse_qs(urlsplit(request.target).query) == {
        "status": ["pinned"],
        "includeCount": ["false"],
        "pageLimit": ["1000"],
        "pageOffset": ["0"],
        "metadata[name]": ["a b"],
    }
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


async def test_what_the_service_leaves_out_is_empty(server, client):
    server.reply(
        200,
        {"rows": [{**row(1), "metadata": None, "mime_type": None, "number_of_files": None}]},
    )
    (pin,) = await client.pins()
    assert (pin.name, pin.keyvalues, pin.type, pin.files) == ("", {}, "", 1)


@pytest.mark.parametrize(
    ("there", "limit", "wanted", "asked"),
    [
        (2500, None, 2500, [1000, 1000, 1000]),
        (2000, None, 2000, [1000, 1000, 1000]),
        (2500, 1700, 1700, [1000, 701]),
        (2500, 20, 20, [20]),
        (0, None, 0, [1000]),
    ],
)
async def test_pages_are_fetched_until_there_are_enough(there, limit, wanted, asked):
    rows = [row(number) for number in range(there)]
    with ScriptedServer(pages_of(rows)) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            pins = await client.pins(limit=limit)
    assert [pin.id for pin in pins] == [each["id"] for each in rows[:wanted]]
    limits = [
        int(parse_qs(urlsplit(each.target).query)["pageLimit"][0]) for each in server.requests
    ]
    assert limits == asked


async def test_a_pin_that_moves_to_the_next_page_is_given_once():
    rows = [row(number) for number in range(1500)]

    def script(request):
        reply = pages_of(rows)(request)
        rows.insert(0, row(9999))  # somebody pins meanwhile
        return reply

    with ScriptedServer(script) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            pins = await client.pins()
    assert [pin.id for pin in pins] == [f"id-{number}" for number in range(1500)]


@pytest.mark.parametrize("there", [900, 1000, 1500, 2000, 3500])
@pytest.mark.parametrize("kept", [0, 1, 3])
@pytest.mark.parametrize("limit", [None, 1200])
async def test_pins_that_are_revoked_in_the_loop_hide_no_others(there, kept, limit):
    """All are revoked, or all but every third one, or one at the end of the first page."""
    rows = [row(number) for number in range(there)]
    stays = {0: set(), 1: {"id-999"}, 3: {f"id-{number}" for number in range(0, there, 3)}}[kept]
    with ScriptedServer(pages_of(rows)) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            found = []
            async for pin in client.iter_pins(limit=limit):
                found.append(pin.id)
                if pin.id not in stays:
                    rows[:] = [each for each in rows if each["id"] != pin.id]
    assert found == [f"id-{number}" for number in range(there)][:limit]


async def test_a_page_with_many_notes_is_read_whole(server, client):
    notes = {f"key {number}": "x" * 255 for number in range(10)}
    rows = [{**row(number), "metadata": {"name": "n", "keyvalues": notes}} for number in range(999)]
    server.reply(200, {"rows": rows})
    assert len(await client.pins()) == 999


@pytest.mark.parametrize(
    "body",
    [
        b"<html>Please log in</html>",
        [],
        {},
        {"rows": None},
        {"rows": 5},
        {"rows": [1]},
        {"rows": [{}]},
        {"rows": [{**row(1), "ipfs_pin_hash": "not a CID"}]},
        {"rows": [{**row(1), "ipfs_pin_hash": 5}]},
        {"rows": [{**row(1), "size": "many"}]},
        {"rows": [{**row(1), "date_pinned": "yesterday"}]},
        {"rows": [{**row(1), "date_pinned": None}]},
        {"rows": [{**row(1), "metadata": "text"}]},
        {"rows": [{**row(1), "metadata": {"name": "n", "keyvalues": 5}}]},
    ],
)
async def test_a_reply_that_is_no_list_of_pins_is_a_provider_error(server, client, body):
    server.reply(200, body)
    with pytest.raises(ProviderError, match="not a list of pins"):
        await client.pins()


async def test_a_refusal_is_the_errors_of_the_spec(server, client):
    server.reply(401, {"error": {"details": "expired"}})
    with pytest.raises(AuthenticationError, match=r"^HTTP error 401$"):
        await client.pins()


async def test_bad_arguments_are_refused_before_anything_is_sent(server, client):
    with pytest.raises(TypeError, match="name must be a string"):
        await client.pins(name=5)
    for limit in ("1", 1.5, True):
        with pytest.raises(TypeError, match="limit must be a whole number"):
            await client.pins(limit=limit)
    for limit in (0, -1):
        with pytest.raises(ValueError, match="limit must be at least 1"):
            await client.pins(limit=limit)
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await client.pins()
    assert server.requests == []


async def test_a_provider_that_cannot_list_says_so():
    class AsyncSilent:
        async def put_json(self, text, *, name):
            return HELLO_CID

        async def get_json(self, cid):
            return None

        async def put_file(self, source, *, name, progress=None):
            return HELLO_CID

        async def get_file(self, cid, *, to=None, progress=None):
            return None

        async def delete(self, cid):
            pass

        async def test_authentication(self):
            pass

        async def aclose(self):
            pass

    with pytest.raises(ConfigError, match="Silent cannot list what it keeps"):
        await AsyncClient(AsyncSilent()).pins()
