"""Gateways in front of a real node: without blocks, without archives, lying, dying."""

import io
from contextlib import contextmanager
from dataclasses import replace

from holdfast.content.car import write_car
from holdfast.content.profiles import Profile
from holdfast.testing import Scripted, ScriptedServer, forward_to
from tests.dags import archive_gateway
from tests.faulty import gateway_of
from tests.support import config_for

ODD_LAYOUT = Profile(
    name="odd",
    cid_version=1,
    chunk_size=100_000,
    width=5,
    raw_leaves=True,
    directory_size="block",
)
"""A layout that no profile of ours has, and of many levels."""


def pin(node, data, profile):
    """Put `data` into the node's store in the given layout; its CID."""
    return node.repository.add(io.BytesIO(data), profile, name="test")[0].cid


def pin_tree(node, path, profile):
    """Put the folder at `path` into the node's store; its CID."""
    return node.repository.add(path, profile)[0].cid


def kind_of(request):
    """What a request asks a gateway for: "raw", "car" or "plain"."""
    for kind in ("raw", "car"):
        if f"format={kind}" in request.target:
            return kind
    return "plain"


def cut_at(size, cut_kind="plain"):
    """A change of replies: those of one kind break off."""

    def change(kind, request, reply):
        return replace(reply, cut=size) if kind == cut_kind else reply

    return change


@contextmanager
def gateway(node, change=lambda kind, request, reply: reply, *, refuse=(), ignore=()):
    """A gateway that passes requests on to `node`, and changes its replies.

    It answers 406 to the kinds in `refuse`, and with the plain content to those in `ignore`.
    """
    forward = forward_to(node.gateway_url)

    def script(request):
        kind = kind_of(request)
        if kind in refuse:
            return Scripted(status=406)
        if kind in ignore:
            headers = {**request.headers, "accept": "*/*"}
            request = replace(request, target=request.target.partition("?")[0], headers=headers)
        return change(kind, request, forward(request))

    with ScriptedServer(script) as server:
        yield server


def kinds(server):
    """The kinds of all requests that a server had, in order."""
    return [kind_of(request) for request in server.requests]


def one_file(root, blocks, body, refuse=()):
    """A gateway with one file: its plain `body`, its blocks and its archive."""
    archive = archive_gateway(b"".join(write_car([root], blocks.items())))
    others = gateway_of(blocks, lambda _: Scripted(body=body))

    def answer(request):
        kind = kind_of(request)
        if kind in refuse:
            return Scripted(status=406)
        return archive(request) if kind == "car" else others(request)

    return ScriptedServer(answer)


def config_for_all(*servers, **changes):
    """The configuration of a client that asks these gateways in this order."""
    urls = [f"{server.url}/ipfs" for server in servers]
    return config_for(servers[0], gateway_url=urls, **changes)
