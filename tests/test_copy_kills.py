"""The commands `copy` and `restore`, killed on the way and run again."""

import json
import random
import shutil
import signal
import subprocess
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from holdfast import Client, ClientConfig
from holdfast.content import dag_cbor
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.content.codecs import DAG_CBOR
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.repository import Repository
from holdfast.testing import ScriptedServer, forward_to, running_node
from tests.clusters import running_cluster
from tests.commands import HOLDFAST, Commands
from tests.content import read_archive, stream
from tests.engines import running_kubo
from tests.faulty import flipped
from tests.folder_dags import FolderDag
from tests.gateways import ODD_LAYOUT
from tests.stores import pins_in
from tests.support import wait_until

PINS = 200
KINDS = ("local", "pinning", "kubo", "cluster")
ODD = (ODD_LAYOUT, KUBO_LEGACY_CIDV1)
"""Layouts that the node does not give uploads."""


def fill(folder):
    """Make a store with documents, files, folders and odd layouts; return the CIDs of the last."""
    large = b"".join(stream("kills", 3_000_000))
    odd = set()
    folder.mkdir()
    with Repository(folder / "store") as repository:
        for number in range(PINS):
            fields = {"name": f"pin {number}", "keyvalues": {"number": number}}
            profile = UNIXFS_V1_2025
            match number % 10:
                case 7:
                    content = large[: 1_100_000 + number]
                case 8:
                    content = folder / f"folder-{number}"
                    (content / "sub").mkdir(parents=True)
                    (content / "sub" / "a.txt").write_text(f"a {number}")
                    (content / "large").write_bytes(large[: 1_050_000 + number])
                case 9:
                    content = large[: 300_000 + number]
                    profile = (*ODD, UNIXFS_V0_2015)[number // 10 % 3]
                case _:
                    content = b'{"number":%d}' % number
            pin, _ = repository.add(content, profile, **fields)
            if profile in ODD:
                odd.add(pin.cid)
        assert repository.totals().pins == PINS
    return odd


def start(kind, folder, stack):
    """Start a provider; return the configuration of a client, and the fields of a connection."""
    if kind == "local":
        return ClientConfig(path=folder / "store"), {"path": str(folder / "store")}
    if kind == "pinning":
        node = stack.enter_context(running_node(folder / "store"))
        token = folder / "token"
        token.write_text(node.token)
        return node.config, {
            "pin_api_url": node.config.pin_api_url,
            "gateway_url": node.config.gateway_url[0],
            "token_file": str(token),
        }
    return start_engine(kind, folder, stack)[:2]


def start_engine(kind, folder, stack):
    """Start an engine; return the configuration, the fields of a connection, and its Kubo."""
    folder.mkdir()
    if kind == "cluster":
        cluster = stack.enter_context(running_cluster(folder, size=1))
        fields = {"pin_api_url": cluster.api_urls[0], "gateway_url": cluster.gateway_urls[0]}
        return cluster.provider_config(), fields, cluster.peers[0].kubo
    kubo = stack.enter_context(running_kubo(folder / "kubo"))
    with Client.init(kubo.provider_config()) as client:
        for pin in client.pins():  # an empty directory
            client.revoke(pin.cid)
    return kubo.provider_config(), {"pin_api_url": kubo.api_url}, kubo


def write_connections(commands, **places):
    lines = []
    for name, (kind, fields) in places.items():
        lines += [f"[connections.{name}]", f"provider = {json.dumps(kind)}"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
    commands.write_user_file("\n".join(lines))


def killed_when(is_time, commands, *arguments, seconds=60):
    """Run the command until `is_time` returns True, and kill it; return its results.

    The results go to a file. Nobody reads them before the end, so a pipe would fill up, and the
    command would wait.
    """
    with (commands.folder / "results").open("w+") as results:
        process = subprocess.Popen(  # noqa: S603
            [HOLDFAST, *arguments],
            env=commands.environment,
            cwd=commands.folder,
            stdout=results,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: is_time() or process.poll() is not None, seconds)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it had ended before"
        results.seek(0)
        return [json.loads(line) for line in results if line.endswith("\n")]


def pins_of(config):
    with Client.init(config) as client:
        return {
            pin.cid: (pin.name, {key: str(value) for key, value in pin.keyvalues.items()})
            for pin in client.iter_pins()
        }


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_a_copy_that_is_killed_twice_copies_everything_once(source, target, tmp_path):
    odd = fill(tmp_path / "first")
    commands = Commands(tmp_path / "commands")
    with ExitStack() as stack:
        is_node = source in {"kubo", "cluster"}
        here, fields = start(source, tmp_path / ("source" if is_node else "first"), stack)
        if is_node:
            with (
                Client.init(path=tmp_path / "first" / "store") as local,
                Client.init(here) as client,
            ):
                dropped = {outcome.result().dropped for outcome in local.copy_pins(to=client)}
                assert dropped == {("keyvalues",) if source == "kubo" else ()}
        destination, others = start(target, tmp_path / "target", stack)
        write_connections(commands, here=(source, fields), there=(target, others))
        expected = pins_of(here)
        assert len(expected) == PINS

        arguments = ["copy", "--from", "here", "--to", "there", "--json"]
        first = killed_when(lambda: len(pins_of(destination)) >= PINS // 4, commands, *arguments)
        second = killed_when(lambda: len(pins_of(destination)) >= PINS // 2, commands, *arguments)
        lost = sorted(pins_of(destination))[::5]
        with Client.init(destination) as client:
            for cid in lost:
                client.revoke(cid)
        before = pins_of(destination)
        assert PINS // 4 <= len(before) < PINS
        ended = commands.run(*arguments)
        third = [json.loads(line) for line in ended.stdout.splitlines()]
        errors = [json.loads(line) for line in ended.stderr.splitlines()]

        # Every report is right.
        failed = {line["error"]["cid"] for line in errors if "error" in line}
        assert failed == (odd if target == "pinning" else set())
        # The service tries to fetch from the network what a node there has.
        code = 12 if source == "kubo" else 3
        assert ended.returncode == (code if failed else 0)
        reports = [report for report in (*first, *second, *third) if report["how"] is not None]
        sent = [report["cid"] for report in reports if report["cid"] not in lost]
        assert len(set(sent)) == len(sent), "something was sent twice"
        assert {report["how"] for report in third} - {None} == {
            "upload" if target == "pinning" else "archive"
        }
        assert {report["cid"] for report in third if report["duplicate"]} == set(before)
        losses = {tuple(report["dropped"]) for report in third if not report["duplicate"]}
        assert losses == {("keyvalues",) if target == "kubo" and source != "kubo" else ()}

        # Nothing is missing.
        complete = {
            cid: (name, {} if target == "kubo" else keyvalues)
            for cid, (name, keyvalues) in expected.items()
            if cid not in failed
        }
        assert pins_of(destination) == complete
        with Client.init(destination) as client, Client.init(here) as origin:
            for cid in complete:
                copy = b"".join(client.provider.export_archive(cid))
                assert copy == b"".join(origin.provider.export_archive(cid))


# The target is changed after the kill.

SMALL_PINS = 60


def remove(folder, _):
    shutil.rmtree(folder, ignore_errors=True)  # the command may not have made it yet


def revoke_all(folder, choose):
    revoke_some(folder, choose, share=1)


def revoke_some(folder, choose, share=0.5):
    pins = sorted(pins_in(folder))
    with Client.init(path=folder) as client:
        for cid in choose.sample(pins, int(len(pins) * share)):
            client.revoke(cid)


def revoke_some_and_collect(folder, choose):
    revoke_some(folder, choose)
    with Repository(folder) as repository:
        repository.collect_garbage()


def replace_store(folder, choose):
    """Put another store there, which has some of the pins, and others."""
    with Repository(folder) as repository:
        pins = repository.pins()
        archives = [
            b"".join(repository.export_car(CID.parse(pin.cid)))
            for pin in choose.sample(pins, len(pins) // 3)
        ]
    shutil.rmtree(folder)
    with Repository(folder) as repository:
        repository.add(b"another store", UNIXFS_V1_2025, name="other")
        for archive in archives:
            repository.import_car([archive])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "change", [remove, revoke_all, revoke_some, revoke_some_and_collect, replace_store]
)
@pytest.mark.parametrize("command", ["copy", "restore"])
def test_a_run_after_a_kill_reports_what_is_at_the_target(command, change, seed, tmp_path):
    choose = random.Random(f"{command} {change.__name__} {seed}")  # noqa: S311
    source, target, file = tmp_path / "source", tmp_path / "target", tmp_path / "pins.car"
    commands = Commands(tmp_path / "commands")
    with Repository(source) as repository:
        for number in range(SMALL_PINS):
            content = b"%d" % number * choose.choice([10, 100_000, 600_000])
            repository.add(content, UNIXFS_V1_2025, name=f"pin {number}")
    places = {name: ("local", {"path": str(tmp_path / name)}) for name in ("source", "target")}
    write_connections(commands, **places)
    arguments = ["copy", "--from", "source", "--to", "target", "--json"]
    if command == "restore":
        assert commands.run("backup", file, "--path", source).returncode == 0
        arguments = ["restore", file, "--path", target, "--json"]

    count = choose.randrange(SMALL_PINS * 3 // 4)
    killed_when(lambda: len(pins_in(target)) >= count, commands, *arguments)
    change(target, choose)
    before = pins_in(target) & pins_in(source)
    ended = commands.run(*arguments)

    assert ended.returncode == 0
    results = [json.loads(line) for line in ended.stdout.splitlines()]
    new = {report["cid"] for report in results if not report["duplicate"]}
    duplicates = {report["cid"] for report in results if report["duplicate"]}
    assert duplicates == before
    assert new == pins_in(source) - before
    assert pins_in(target) >= pins_in(source) == new | duplicates
    words = "restored" if command == "restore" else "copied to target"
    note = f"{words}: {len(new)} pin{'' if len(new) == 1 else 's'}"
    note += f"; there already: {len(duplicates)}" if duplicates else ""
    assert json.loads(ended.stderr) == {"warning": note}
    with Repository(target) as repository, Repository(source) as origin:
        assert list(repository.check()) == []
        for cid in map(CID.parse, pins_in(source)):
            assert b"".join(repository.read(cid)) == b"".join(origin.read(cid))


# Content of gateways, of which one lies and one drips

RESCUED = 200
SHAPES = 5


def public_content(kubo):
    """Fill `kubo` with files, HAMT folders and dag-cbor roots over them; return their CIDs."""
    dag, roots = FolderDag(), []
    for number in range(RESCUED - RESCUED // 50):
        data = b"".join(stream(f"rescue {number}", 500 + 4_000 * (number % 40)))
        match number % SHAPES:
            case 0 | 1:
                root = dag.file(data, (UNIXFS_V1_2025, ODD_LAYOUT)[number % 2])
            case 2:
                root = dag.shard(*((f"{n}.txt", dag.file(data[n : n + 300])) for n in range(40)))
            case 3:
                large = dag.file(data * 3, ODD_LAYOUT)
                root = dag.folder(("large", large), ("sub", dag.folder(("a", dag.file(data)))))
            case _:
                image = dag.file(data, ODD_LAYOUT)
                token = {"name": f"token {number}", "image": image, "files": [dag.file(b"a")]}
                root = dag.put(dag_cbor.encode(token), DAG_CBOR)
        roots.append(root)
    kubo.import_car(b"".join(write_car(roots[:1], dag.items())))
    return [str(root) for root in roots]


@contextmanager
def gateways(kubo):
    """Three gateways in front of `kubo`: one lies, one drips, one is honest."""
    forward = forward_to(kubo.gateway_url)

    def lie(request):
        reply = forward(request)
        is_content = reply.status == 200 and len(reply.body) > 100  # in the first block of archives
        return replace(reply, body=flipped(reply.body, 100)) if is_content else reply

    def drip(request):
        return replace(forward(request), drip=0.05)

    with ScriptedServer(lie) as liar, ScriptedServer(drip) as slow, ScriptedServer(forward) as good:
        yield liar, slow, good


def blocks_at(kubo, cid):
    """The blocks below `cid` that Kubo itself exports."""
    return dict(read_archive([kubo.call("dag/export", arg=cid)])[1])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("target", ["kubo", "cluster"])
def test_a_rescue_that_is_killed_twice_brings_all_that_is_alive(target, tmp_path):
    commands = Commands(tmp_path / "commands")
    choose = random.Random(f"rescue {target}")  # noqa: S311
    dead = {str(CID.of_raw(b"dead %d" % number)) for number in range(RESCUED // 50)}
    with ExitStack() as stack:
        public = stack.enter_context(running_kubo(tmp_path / "public"))
        alive = public_content(public)
        servers = stack.enter_context(gateways(public))
        destination, fields, own_kubo = start_engine(target, tmp_path / "target", stack)
        urls = [f"{server.url}/ipfs" for server in servers]
        places = {"public": ("gateway", {"gateway_url": urls}), "there": (target, fields)}
        write_connections(commands, **places)
        with commands.user_file.open("a") as file:
            file.write("\n[timeouts]\nread = 6\ntotal = 12\n")
        lines = [*(f"{cid},pin {n}" for n, cid in enumerate(alive)), *dead]
        choose.shuffle(lines)
        (commands.folder / "cids.csv").write_text("\n".join(lines))

        arguments = ["copy", "--from", "public", "--to", "there", "--cids", "cids.csv", "--json"]
        for part in (3, 2):
            count = RESCUED // part

            def is_time(count=count):
                return len(pins_of(destination)) >= count

            killed_when(is_time, commands, *arguments, seconds=300)
        before = set(pins_of(destination))
        assert RESCUED // 2 <= len(before) < len(alive)
        ended = commands.run(*arguments)

        # What is alive has come from the honest gateway, and what is dead is named.
        reports = [json.loads(line) for line in ended.stdout.splitlines()]
        errors = [json.loads(line) for line in ended.stderr.splitlines()]
        assert ended.returncode == 10
        assert {line["error"]["cid"] for line in errors if "error" in line} == dead
        assert {line["error"]["name"] for line in errors if "error" in line} == {"NotFoundError"}
        assert {report["cid"] for report in reports} == set(alive)
        # What was under way when the process was killed may be pinned a moment later.
        duplicates = {report["cid"] for report in reports if report["duplicate"]}
        assert before <= duplicates
        assert len(duplicates - before) <= 8
        honest = servers[-1].url.removeprefix("http://")
        new = [report for report in reports if not report["duplicate"]]
        assert {tuple(report["gateways"]) for report in new} == {(honest,)}
        failed = f"failed: {len(dead)} (not found: {len(dead)})"
        note = f"copied to there: {len(new):,} pins; from {honest}: {len(new):,}; "
        assert errors[-1]["warning"] == f"{note}there already: {len(duplicates):,}; {failed}"

        # The target has the names and the blocks, by its own tools.
        names = {cid: name for cid, (name, _) in pins_of(destination).items()}
        assert names == {cid: f"pin {n}" for n, cid in enumerate(alive)}
        for cid in alive:
            assert blocks_at(own_kubo, cid) == blocks_at(public, cid)

        # Another run asks the target, and the gateways for nothing but the dead.
        asked = [len(server.requests) for server in servers]
        ended = commands.run(*arguments)
        assert ended.returncode == 10
        assert {json.loads(line)["duplicate"] for line in ended.stdout.splitlines()} == {True}
        for server, count in zip(servers, asked, strict=True):
            for request in server.requests[count:]:
                assert any(cid in request.target for cid in dead)
