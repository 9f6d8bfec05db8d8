"""Redirects to names: what counts is the address that is connected to.

Names are resolved by a table in place of the system's resolver. A gateway out in the world is one
on 127.0.0.2 here, which counts as public; the servers inside are on 127.0.0.1.
"""

import socket

import pytest

from holdfast import AsyncClient
from holdfast.errors import NetworkError, ProviderError
from holdfast.protocol import host_privacy
from tests.attackers import Attacker
from tests.support import GATEWAY_TOKEN, HELLO_CID, config_for

PUBLIC, INSIDE = "127.0.0.2", "127.0.0.1"
WORDS = "redirects into a private network; it was not followed"
CALLS = {
    "download": lambda client: client.download(HELLO_CID),
    "retrieve": lambda client: client.retrieve(HELLO_CID),
    "open": lambda client: client.open(HELLO_CID),
}


class Names:
    """What each name resolves to: its answers one after the other, the last one for ever."""

    def __init__(self):
        self.answers = {}
        self._system = socket.getaddrinfo

    def __call__(self, host, *args, **kwargs):
        if host not in self.answers:
            return self._system(host, *args, **kwargs)
        answers = self.answers[host]
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if not found:
            raise socket.gaierror(socket.EAI_AGAIN, "not now")
        return [each for address in found for each in self._system(address, *args, **kwargs)]


@pytest.fixture
def names(monkeypatch):
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names)
    real = host_privacy.privacy
    seen = lambda host: host_privacy.WORLD if host == PUBLIC else real(host)  # noqa: E731
    monkeypatch.setattr(host_privacy, "privacy", seen)
    names.answers = {"gateway.example": [[PUBLIC]], "inside.example": [[INSIDE]]}
    return names


def redirecting_to(location, host=PUBLIC):
    """A server at `host` that redirects every request."""
    reply = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
    return Attacker(lambda: iter([reply.encode()]), host=host)


async def client_of(gateway, **changes):
    fields = {
        "gateway_url": f"http://gateway.example:{gateway.port}/ipfs",
        "gateway_token": GATEWAY_TOKEN,
        "allow_insecure": True,
    }
    return await AsyncClient.init(config_for(gateway, **{**fields, **changes}))


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_redirect_to_a_name_in_a_private_network_is_not_followed(
    names, server, operation, scheme
):
    with redirecting_to(f"{scheme}://inside.example:{server.port}/secret") as gateway:
        async with await client_of(gateway) as client:
            with pytest.raises(ProviderError, match=WORDS):
                await CALLS[operation](client)
    assert server.connections == 0


async def test_the_error_names_the_gateway_that_redirected(names, server):
    with redirecting_to(f"http://inside.example:{server.port}/secret") as gateway:
        async with await client_of(gateway) as client:
            with pytest.raises(ProviderError) as caught:
                await client.download(HELLO_CID)
    assert str(caught.value) == f"gateway.example:{gateway.port} {WORDS}"
    assert caught.value.status == 302


async def test_a_redirect_to_a_name_in_the_world_is_followed(names):
    names.answers["other.example"] = [[PUBLIC]]
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    with (
        Attacker(lambda: iter([body]), host=PUBLIC) as other,
        redirecting_to(f"http://other.example:{other.port}/x") as gateway,
    ):
        async with await client_of(gateway) as client:
            assert (await client.download(HELLO_CID)).read() == b"hello"


async def test_of_several_addresses_the_private_ones_are_left_out(names, server):
    names.answers["other.example"] = [[INSIDE, PUBLIC]]
    with redirecting_to(f"http://other.example:{server.port}/x") as gateway:
        async with await client_of(gateway) as client:
            with pytest.raises(NetworkError, match="cannot connect to other"):
                await client.download(HELLO_CID)
    assert server.connections == 0


async def test_a_name_that_moves_inside_after_it_was_asked_is_not_followed(names, server):
    # The gateway itself does it: its second name server gives another answer.
    names.answers["gateway.example"] = [[PUBLIC], [INSIDE]]
    with redirecting_to(f"http://gateway.example:{server.port}/x") as gateway:
        async with await client_of(gateway) as client:
            with pytest.raises((ProviderError, NetworkError)):
                await client.download(HELLO_CID)
    assert server.connections == 0


async def test_a_name_that_is_resolved_only_at_the_second_try_is_not_followed(names, server):
    names.answers["inside.example"] = [[], [INSIDE]]
    with redirecting_to(f"http://inside.example:{server.port}/x") as gateway:
        async with await client_of(gateway, retries={"attempts": 2, "base": 0.01}) as client:
            with pytest.raises((ProviderError, NetworkError)):
                await client.download(HELLO_CID)
    assert server.requests == []


async def test_a_redirect_over_two_public_gateways_is_not_followed_inside(names, server):
    names.answers["other.example"] = [[PUBLIC]]
    with (
        redirecting_to(f"http://inside.example:{server.port}/x") as other,
        redirecting_to(f"http://other.example:{other.port}/x") as gateway,
    ):
        async with await client_of(gateway) as client:
            with pytest.raises(ProviderError, match=WORDS):
                await client.download(HELLO_CID)
    assert server.connections == 0


async def test_a_kept_connection_into_a_private_network_is_not_used(names, server):
    # It was made for a gateway of the user's own. By now the name leads elsewhere.
    server.reply(404)
    server.reply(404)
    with redirecting_to(f"http://inside.example:{server.port}/secret") as gateway:
        own = f"http://inside.example:{server.port}/ipfs"
        public = f"http://gateway.example:{gateway.port}/ipfs"
        async with await client_of(gateway, gateway_url=own) as client:
            with pytest.raises(ProviderError):
                await client.download(HELLO_CID)
            asked = len(server.requests)
            names.answers["inside.example"] = [[PUBLIC]]
            other = client.with_options(gateway_url=public)
            with pytest.raises(ProviderError, match=WORDS):
                await other.download(HELLO_CID)
        assert gateway.requests > 0
    assert len(server.requests) == asked
    assert server.connections == 1


async def test_a_private_gateway_may_redirect_to_a_private_name(names, server, other_server):
    names.answers["own.example"] = [[INSIDE]]
    server.reply(302, headers={"Location": f"http://inside.example:{other_server.port}/x"})
    other_server.reply(200, b"hello")
    url = f"http://own.example:{server.port}/ipfs"
    async with await AsyncClient.init(config_for(server, gateway_url=url)) as client:
        assert (await client.download(HELLO_CID)).read() == b"hello"


@pytest.mark.parametrize("address", ["169.254.169.254", "192.0.0.192", "::ffff:169.254.169.254"])
async def test_a_name_of_the_metadata_service_is_not_followed_from_anywhere(names, server, address):
    names.answers["metadata.example"] = [[address]]
    server.reply(302, headers={"Location": "http://metadata.example/latest/meta-data"})
    async with await AsyncClient.init(config_for(server)) as client:
        with pytest.raises(ProviderError, match=WORDS):
            await client.download(HELLO_CID)


async def test_behind_a_proxy_a_name_is_the_proxys_to_resolve(names, server):
    server.reply(302, headers={"Location": "http://inside.example/x"})
    server.reply(200, b"hello")
    config = config_for(
        server,
        gateway_url="http://gateway.example/ipfs",
        proxy=server.url,
        allow_insecure=True,
    )
    async with await AsyncClient.init(config) as client:
        assert (await client.download(HELLO_CID)).read() == b"hello"
    assert server.requests[1].target == "http://inside.example/x"
