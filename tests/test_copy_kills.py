"""The command `copy` between all kinds of providers, killed twice on the way and run again."""

import json
import signal
import subprocess
from contextlib import ExitStack

import pytest

from holdfast import Client, ClientConfig
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.repository import Repository
from holdfast.testing import running_node
from tests.clusters import running_cluster
from tests.commands import HOLDFAST, Commands
from tests.content import stream
from tests.engines import running_kubo
from tests.gateways import ODD_LAYOUT
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
            about = {"name": f"pin {number}", "keyvalues": {"number": number}}
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
            pin, _ = repository.add(content, profile, **about)
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
    folder.mkdir()
    if kind == "cluster":
        cluster = stack.enter_context(running_cluster(folder, size=1))
        fields = {"pin_api_url": cluster.api_urls[0], "gateway_url": cluster.gateway_urls[0]}
        return cluster.provider_config(), fields
    kubo = stack.enter_context(running_kubo(folder / "kubo"))
    with Client.init(kubo.provider_config()) as client:
        for pin in client.pins():  # an empty directory
            client.revoke(pin.cid)
    return kubo.provider_config(), {"pin_api_url": kubo.api_url}


def write_connections(commands, **places):
    lines = []
    for name, (kind, fields) in places.items():
        lines += [f"[connections.{name}]", f"provider = {json.dumps(kind)}"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
    commands.write_user_file("\n".join(lines))


def killed_after(count, commands, *arguments):
    """Run the command until its journal has `count` pins, and kill it; return its results."""
    folder = commands.folder.parent / "data" / "holdfast" / "copies"

    def noted():
        return sum(len(path.read_bytes().splitlines()) - 1 for path in folder.glob("*.journal"))

    process = subprocess.Popen(  # noqa: S603
        [HOLDFAST, *arguments],
        env=commands.environment,
        cwd=commands.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: noted() >= count or process.poll() is not None, 60)
    process.send_signal(signal.SIGKILL)
    output, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, "it had ended before"
    lines = output.decode().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")], noted()


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
                dropped = {each.result().dropped for each in local.copy_pins(to=client)}
                assert dropped == {("keyvalues",) if source == "kubo" else ()}
        there, others = start(target, tmp_path / "target", stack)
        write_connections(commands, here=(source, fields), there=(target, others))
        expected = pins_of(here)
        assert len(expected) == PINS

        arguments = ["copy", "--from", "here", "--to", "there", "--json"]
        first, noted = killed_after(PINS // 4, commands, *arguments)
        second, more = killed_after(PINS // 2, commands, *arguments)
        assert PINS // 4 <= noted < more < PINS
        ended = commands.run(*arguments)
        third = [json.loads(line) for line in ended.stdout.splitlines()]
        errors = [json.loads(line) for line in ended.stderr.splitlines()]

        # Every report is right.
        failed = {each["error"]["cid"] for each in errors if "error" in each}
        assert failed == (odd if target == "pinning" else set())
        # The service tries to fetch from the network what a node there has.
        code = 12 if source == "kubo" else 3
        assert ended.returncode == (code if failed else 0)
        sent = [each["cid"] for each in (*first, *second, *third) if each["how"] is not None]
        assert len(set(sent)) == len(sent), "something was sent twice"
        assert {each["how"] for each in third} - {None} == {
            "upload" if target == "pinning" else "archive"
        }
        # What was under way when it was killed may be there, without a note in the journal.
        assert len([each for each in third if each["duplicate"]]) <= 8
        losses = {tuple(each["dropped"]) for each in third if not each["duplicate"]}
        assert losses == {("keyvalues",) if target == "kubo" and source != "kubo" else ()}

        # Nothing is missing.
        wanted = {
            cid: (name, {} if target == "kubo" else keyvalues)
            for cid, (name, keyvalues) in expected.items()
            if cid not in failed
        }
        assert pins_of(there) == wanted
        with Client.init(there) as client, Client.init(here) as origin:
            for cid in wanted:
                copy = b"".join(client.provider.export_archive(cid))
                assert copy == b"".join(origin.provider.export_archive(cid))
        assert list((tmp_path / "commands/data/holdfast/copies").iterdir()) == []
