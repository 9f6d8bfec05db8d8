"""Six real members for tests of copies, each of which can fail in every way that matters.

Two Kubos, a cluster of three, and three nodes of ours in processes of their own: one is called by
the v3 API, one by the older API, one by the Pinning Services API. Clients reach each of them
through proxies, which can delay, cut, drip and lie. What a member really has is read past them.
"""

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3

from holdfast import ClientConfig
from holdfast.content.cid import CID
from holdfast.content.codecs import links_of
from holdfast.content.multibase import base32_encode
from holdfast.errors import ClientError
from holdfast.testing import Recorded, Scripted, ScriptedServer, forward_to
from holdfast.testing.scripted_server import Script
from tests.clusters import Cluster, free_port
from tests.content import read_archive
from tests.disks import mount, unmount
from tests.engines import Kubo
from tests.faulty import flipped
from tests.node_process import NodeProcess
from tests.pinata import file_row, files
from tests.psa import results, row
from tests.support import raw_cid, wait_until

# Faults of the proxies: what becomes of a request that `forward` would send on.

Fault = Callable[[Recorded, Script], Scripted]
READS = ("/api/v0/block/get", "/api/v0/cat", "/api/v0/dag/export", "/ipfs/")
OTHER_CID = raw_cid(b"another CID")
A_CID = re.compile(rb"\b(baf[a-z2-7]{50,}|Qm[1-9A-HJ-NP-Za-km-z]{44})\b")


def reads_content(request: Recorded) -> bool:
    return request.target.startswith(READS)


def honest(request: Recorded, forward: Script) -> Scripted:
    return forward(request)


def delay(seconds: float) -> Fault:
    """Wait before each reply."""
    return lambda request, forward: replace(forward(request), delay=seconds)


def drip(request: Recorded, forward: Script) -> Scripted:
    """Send each reply byte by byte, ten a second."""
    return replace(forward(request), drip=0.1)


def cut(request: Recorded, forward: Script) -> Scripted:
    """Close the connection in the middle of each reply."""
    reply = forward(request)
    return replace(reply, cut=len(reply.body) // 2) if reply.body else Scripted(hang_up=True)


def hang_up(request: Recorded, forward: Script) -> Scripted:
    """Close the connection instead of a reply; the member gets nothing."""
    return Scripted(hang_up=True)


def empty(request: Recorded, forward: Script) -> Scripted:
    """Reply to all that reads content as if it were gone."""
    if not reads_content(request):
        return forward(request)
    if not request.target.startswith("/ipfs/"):
        words = "block was not found locally (offline): ipld: could not find it"
        return Scripted(status=500, body={"Message": words, "Code": 0, "Type": "error"})
    is_cached_only = "only-if-cached" in request.headers.get("cache-control", "")
    return Scripted(status=412 if is_cached_only else 404, body=b"it is not here")


def claim_all(request: Recorded, forward: Script) -> Scripted:
    """List every CID that is asked for as pinned, and have none of them."""
    url = urlsplit(request.target)
    query = {name: values[-1] for name, values in parse_qs(url.query).items()}
    folder, _, last = url.path.rpartition("/")
    cid = query.get("arg") or query.get("cid", "").partition(",")[0]
    if url.path in CLAIMS and cid:
        return Scripted(body=CLAIMS[url.path](cid))
    if request.method == "GET" and folder in CLUSTER_CLAIMS:
        return Scripted(body=CLUSTER_CLAIMS[folder](last))
    return empty(request, forward)


def _older_row(cid: str) -> dict[str, Any]:
    dates = {"date_pinned": "2024-07-11T23:33:27.665Z", "date_unpinned": None}
    pinned = {"id": "1", "ipfs_pin_hash": cid, "size": 5, "user_id": "1", "regions": []}
    return {"rows": [{**pinned, **dates, "metadata": {"name": "", "keyvalues": {}}}]}


def _allocation(cid: str) -> dict[str, Any]:
    copies = {"replication_factor_min": 2, "replication_factor_max": 2}
    times = {"timestamp": "2024-07-11T23:33:27Z", "expire_at": "0001-01-01T00:00:00Z"}
    return {"cid": cid, "name": "", "allocations": ["a", "b"], **copies, **times}


def _states(cid: str) -> dict[str, Any]:
    peers = {name: {"peername": name, "status": "pinned"} for name in ("a", "b")}
    return {"cid": cid, "name": "", "peer_map": peers}


# By the path of a list: what it replies about a CID in the query.
CLAIMS: dict[str, Callable[[str], Any]] = {
    "/api/v0/pin/ls": lambda cid: {"Keys": {cid: {"Type": "recursive", "Name": ""}}},
    "/data/pinList": _older_row,
    "/v3/files/public": lambda cid: files(file_row(cid)),
    "/psa/pins": lambda cid: results(row(cid)),
}
# The same for a CID that is the last part of the path.
CLUSTER_CLAIMS: dict[str, Callable[[str], Any]] = {"/allocations": _allocation, "/pins": _states}


def wrong_bytes(request: Recorded, forward: Script) -> Scripted:
    """Reply to all that reads content with other bytes, also where there is none."""
    if not reads_content(request):
        return forward(request)
    reply = forward(request)
    if reply.status == 200 and reply.body:
        return replace(reply, body=flipped(reply.body, len(reply.body) // 2))
    kind = {"Content-Type": "application/vnd.ipld.raw"}
    return Scripted(headers=kind, body=b"these bytes were made up")


def other_cid(request: Recorded, forward: Script) -> Scripted:
    """Give every new pin another CID in the reply."""
    reply = forward(request)
    if request.method != "POST" or reads_content(request):
        return reply
    return replace(reply, body=A_CID.sub(OTHER_CID.encode(), reply.body))


def without_cache_control(request: Recorded, forward: Script) -> Scripted:
    """Drop `Cache-Control` from the request, as some proxies do."""
    headers = {name: value for name, value in request.headers.items() if name != "cache-control"}
    return forward(replace(request, headers=headers))


class Cache:
    """Keep each reply with content, and send it again from then on, with its age."""

    def __init__(self) -> None:
        self._replies: dict[str, Scripted] = {}

    def __call__(self, request: Recorded, forward: Script) -> Scripted:
        cached = self._replies.get(request.target)
        if cached is not None:
            return replace(cached, headers={**cached.headers, "Age": "7", "X-Cache": "HIT"})
        reply = forward(request)
        if request.method == "GET" and reads_content(request) and reply.status == 200:
            self._replies[request.target] = reply
        return reply


class Proxy(ScriptedServer):
    """Forwards requests to `target`, as the `fault` has it.

    Attributes:
        fault: What becomes of the requests.
        seen: The method and the target of each request so far.
    """

    def __init__(self, target: str) -> None:
        self._forward = forward_to(target)
        self.fault: Fault = honest
        self.seen: list[tuple[str, str]] = []
        super().__init__(self._reply)

    def _reply(self, request: Recorded) -> Scripted:
        with self._lock:
            self._requests.clear()  # their bodies would fill the memory
            self.seen.append((request.method, request.target))
        try:
            return self.fault(request, self._forward)
        except (OSError, HTTPException):  # the member is down, or hung up
            return Scripted(hang_up=True)


# The members


class Member:
    """A place for copies: its processes, its disk, and the proxies before it.

    Attributes:
        name: Its name, which is also its site.
        is_small: Whether its disk is one that can be filled up.
        apis: The proxies before its API.
        gateways: The proxies before its gateways.
    """

    provider = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = self.site = folder.name
        self.apis: list[Proxy] = []
        self.gateways: list[Proxy] = []
        self.is_small = False

    def start(self) -> None:
        """Start it, and wait until it answers."""
        raise NotImplementedError

    def stop(self, *, kill: bool = False) -> None:
        """Stop it, or kill it."""
        raise NotImplementedError

    def delete_blocks(self, *cids: CID) -> None:
        """Delete these blocks, or all, from its disk, and leave its pins. It does not run."""
        raise NotImplementedError

    def archive(self, cid: str) -> bytes:
        """Return what it has of `cid` itself, as an archive, which may not be whole."""
        raise NotImplementedError

    def pins(self) -> set[str]:
        """Return the CIDs that it lists, past the proxies."""
        raise NotImplementedError

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a client's configuration."""
        fields = {
            "provider": self.provider,
            "pin_api_url": _one_or_all([proxy.url for proxy in self.apis]),
            "retries": {"attempts": 1},
            "timeouts": {"connect": 5, "read": 5, "write": 5, "total": 15},
        }
        if self.gateways:
            fields["gateway_url"] = _one_or_all([f"{proxy.url}/ipfs" for proxy in self.gateways])
        return fields

    def connection(self, folder: Path) -> dict[str, Any]:
        """Return the keys of a connection; its token is in a file in `folder`."""
        fields = {**self.fields, "site": self.site}
        if (token := fields.pop("provider_token", None)) is not None:
            file = folder / f"token-of-{self.name}"
            file.write_text(token)
            file.chmod(0o600)
            fields["token_file"] = str(file)
        return fields

    def config(self, **changes: Any) -> ClientConfig:
        """Return the configuration of a client that reaches it through the proxies."""
        return ClientConfig(**{**self.fields, **changes})

    def has(self, cid: str) -> bool:
        """Tell whether it has every block of `cid`, by their bytes, past the proxies."""
        root = CID.parse(cid)
        try:
            _, pairs = read_archive([self.archive(cid)])  # each is compared with its CID
        except ClientError:
            return False
        blocks, pending = dict(pairs), [root]
        while pending:
            block = pending.pop()
            if block not in blocks:
                return False
            pending += [link.cid for link in links_of(block, blocks[block])]
        return True

    # What can happen to it

    def kill(self) -> None:
        """Kill it (SIGKILL)."""
        self.stop(kill=True)

    def empty(self, *cids: CID) -> None:
        """Kill it, delete these blocks, or all, and start it again. Its pins stay."""
        self.kill()
        self.delete_blocks(*cids)
        self.start()

    def fill(self) -> None:
        """Fill its disk: nothing more can be written."""
        if not self.is_small:
            pytest.skip("no small disk can be mounted here")

        def is_full() -> bool:
            try:
                self._resize(str(_used(self.folder)))
            except pytest.skip.Exception:  # it has just written something
                return False
            return True

        wait_until(is_full)

    def make_room(self) -> None:
        """Give its disk room again."""
        self._resize("90%")

    def _resize(self, size: str) -> None:
        mount(self.folder, "-o", f"remount,size={size}")

    @contextmanager
    def faulty(self, fault: Fault) -> Iterator[None]:
        """Let its proxies have a fault for a while."""
        self._set(fault)
        try:
            yield
        finally:
            self._set(honest)

    def _set(self, fault: Fault) -> None:
        for proxy in (*self.apis, *self.gateways):
            proxy.fault = fault

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run it with its proxies, on a small disk where one can be mounted."""
        self.folder.mkdir()
        with ExitStack() as stack:
            try:
                mount(self.folder, "-t", "tmpfs", "-o", "size=90%", "tmpfs")
            except pytest.skip.Exception:
                pass
            else:
                self.is_small = True
                stack.callback(unmount, self.folder)
            stack.callback(self.close)
            self.prepare()
            self.start()
            for proxy in (*self.apis, *self.gateways):
                stack.enter_context(proxy)
            yield

    def prepare(self) -> None:
        """Make its folders, and the proxies."""
        raise NotImplementedError

    def close(self) -> None:
        """End its processes, and close the connections to it."""
        if self.is_small:
            self.make_room()
        self.stop(kill=True)


class KuboMember(Member):
    """A Kubo, which is asked by its RPC API."""

    provider = "kubo"

    def prepare(self) -> None:
        self.kubo = Kubo(self.folder / "repository")
        api, gateway = free_port(), free_port()

        def keep_ports(settings: dict[str, Any]) -> None:
            ports = {"API": api, "Gateway": gateway}
            settings["Addresses"] |= {
                name: f"/ip4/127.0.0.1/tcp/{port}" for name, port in ports.items()
            }

        self.kubo.prepare(keep_ports)
        self.apis = [Proxy(f"http://127.0.0.1:{api}")]

    def start(self) -> None:
        self.kubo.start()

    def stop(self, *, kill: bool = False) -> None:
        self.kubo.stop(kill=kill)

    def delete_blocks(self, *cids: CID) -> None:
        delete_kubo_blocks(self.kubo, *cids)

    def archive(self, cid: str) -> bytes:
        return export_from(self.kubo, cid)

    def pins(self) -> set[str]:
        return pins_of_kubo(self.kubo)

    def close(self) -> None:
        super().close()
        self.kubo.close()


class ClusterMember(Member):
    """Three cluster peers with their Kubos, which are one site."""

    provider = "cluster"

    def prepare(self) -> None:
        self.cluster = Cluster(self.folder, size=3, user=None)
        self.cluster.prepare()
        self.apis = [Proxy(url) for url in self.cluster.api_urls]

    def start(self) -> None:
        self.cluster.start()
        if not self.gateways:
            self.gateways = [Proxy(url) for url in self.cluster.gateway_urls]

    def stop(self, *, kill: bool = False) -> None:
        for peer in self.cluster.peers:
            peer.stop(kill=kill)

    def delete_blocks(self, *cids: CID) -> None:
        for peer in self.cluster.peers:
            delete_kubo_blocks(peer.kubo, *cids)

    def archive(self, cid: str) -> bytes:
        """Return the archive of the peer that has most of it: one may have a few of its blocks."""
        return max((export_from(peer.kubo, cid) for peer in self.cluster.peers), key=len)

    def pins(self) -> set[str]:
        return set().union(*(pins_of_kubo(peer.kubo) for peer in self.cluster.peers))

    def close(self) -> None:
        super().close()
        for peer in self.cluster.peers:
            peer.kubo.close()


class NodeMember(Member):
    """A node of ours in a process of its own, which is called by one of its APIs."""

    prefix = ""

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder)
        self._options = options
        self._process: NodeProcess | None = None

    def prepare(self) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._options = ("--port", str(port), *self._options)
        self.apis, self.gateways = [Proxy(self.url)], [Proxy(self.url)]

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def fields(self) -> dict[str, Any]:
        fields = super().fields
        address = f"{fields['pin_api_url']}{self.prefix}"
        return {**fields, "pin_api_url": address, "provider_token": "token-0123456789"}

    def start(self) -> None:
        self._process = NodeProcess(self.store, *self._options)
        wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            return urllib3.request("GET", f"{self.url}/ipfs/bafkqaaa", retries=False).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def stop(self, *, kill: bool = False) -> None:
        if self._process is not None:
            if kill:
                self._process.process.kill()
            self._process.close()
            self._process = None

    def delete_blocks(self, *cids: CID) -> None:
        chosen = " WHERE key = ?" if cids else ""
        with closing(sqlite3.connect(self.store / "holdfast.sqlite3")) as database, database:
            for key in [(cid.key,) for cid in cids] or [()]:
                database.execute(f"DELETE FROM blocks{chosen}", key)  # noqa: S608
            if not cids:
                database.execute("DELETE FROM links")
        for file in [] if cids else (self.store / "blocks").glob("??/*"):
            file.unlink()

    def archive(self, cid: str) -> bytes:
        url = f"{self.url}/ipfs/{cid}?format=car"
        try:
            reply = urllib3.request("GET", url, retries=False)
        except urllib3.exceptions.HTTPError:  # it breaks off where a block is missing
            return b""
        return reply.data if reply.status == 200 else b""

    def pins(self) -> set[str]:
        with closing(sqlite3.connect(self.store / "holdfast.sqlite3")) as database:
            rows = database.execute("SELECT cid FROM pins WHERE removed IS NULL")
            return {cid for (cid,) in rows}


class V3Member(NodeMember):
    """It lays files out as we do, so that it keeps the CIDs of others."""

    provider = "pinata"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "--v3-profile", "unixfs-v1-2025")


class OlderMember(NodeMember):
    provider = "pinning"


class PSAMember(NodeMember):
    """It takes no content: it fetches from the gateways of others what it pins."""

    provider = "psa"
    prefix = "/psa"


def _one_or_all(urls: list[str]) -> Any:
    return urls[0] if len(urls) == 1 else urls


def _as_toml(value: Any) -> str:
    if isinstance(value, dict):
        rows = ", ".join(f"{key} = {_as_toml(item)}" for key, item in value.items())
        return f"{{{rows}}}"
    return json.dumps(value)


def _used(folder: Path) -> int:
    return shutil.disk_usage(folder).used


def delete_kubo_blocks(kubo: Kubo, *cids: CID) -> None:
    multihashes = [b"\x12\x20" + cid.digest for cid in cids]
    names = {f"{base32_encode(multihash).upper()}.data" for multihash in multihashes}
    for file in (kubo.folder / "blocks").glob("*/*.data"):
        if not cids or file.name in names:
            file.unlink()


def export_from(kubo: Kubo, cid: str) -> bytes:
    """Return the archive of what a Kubo has of `cid`, or nothing if that is not all."""
    try:
        return kubo.call("dag/export", arg=cid, offline=True)
    except (AssertionError, urllib3.exceptions.HTTPError):  # an error at once, or in the trailer
        return b""


def pins_of_kubo(kubo: Kubo) -> set[str]:
    return set(json.loads(kubo.call("pin/ls", type="recursive")).get("Keys") or {})


# The fleet


class Fleet:
    """The members, by name: ``kubo-a``, ``kubo-b``, ``cluster``, ``v3``, ``older``, ``psa``."""

    def __init__(self, members: list[Member]) -> None:
        self.members = {member.name: member for member in members}

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members.values())

    def write_settings(self, folder: Path, *order: str, **options: Any) -> dict[str, str]:
        """Write a user's file with a connection for each member, and one over all: ``copies``.

        `order` are the members of that one; `options` are its provider options. Its ledger is in
        `folder`. Return the variables of a process that uses this file.
        """
        file = folder / "settings/holdfast/holdfast.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        tables = {member.name: member.connection(file.parent) for member in self}
        all_options = {"connections": list(order or self.members), **options}
        tables["copies"] = {
            "provider": "copies",
            "path": str(folder / "ledger"),
            "provider_options": all_options,
        }
        lines = []
        for name, fields in tables.items():
            lines += [f"[connections.{name}]"]
            lines += [f"{key} = {_as_toml(value)}" for key, value in fields.items()]
        file.write_text("\n".join(lines))
        folders = {"CONFIG": "settings", "DATA": "data"}
        return {f"XDG_{kind}_HOME": str(folder / name) for kind, name in folders.items()}

    def sites_with(self, cid: str) -> list[str]:
        """Return the sites that have every block of `cid` now."""
        return [member.site for member in self if member.has(cid)]

    def places_of(self, cid: str) -> list[str]:
        """Return the sites that list `cid` and have every block of it now."""
        return [member.site for member in self if cid in member.pins() and member.has(cid)]


KINDS: dict[str, type[Member]] = {
    "kubo-a": KuboMember,
    "kubo-b": KuboMember,
    "cluster": ClusterMember,
    "v3": V3Member,
    "older": OlderMember,
    "psa": PSAMember,
}


@contextmanager
def running_fleet(folder: Path, *names: str) -> Iterator[Fleet]:
    """Run the members of these `names`, or all of them, below `folder`."""
    members: list[Member] = []
    with ExitStack() as stack:
        for name in names or KINDS:
            if KINDS[name] is PSAMember:
                urls = [gateway_of(member) for member in members]
                options = [word for url in urls if url for word in ("--gateway", url)]
                members.append(PSAMember(folder / name, *options))
            else:
                members.append(KINDS[name](folder / name))
            stack.enter_context(members[-1].running())
        yield Fleet(members)


def gateway_of(member: Member) -> str:
    """Return the address of a member's own gateway, past the proxies."""
    if isinstance(member, KuboMember):
        return member.kubo.gateway_url
    return f"{member.url}/ipfs" if isinstance(member, NodeMember) else ""
