"""Files of ours that other implementations of age open, and theirs that we open."""

import json
import os
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pyrage
import pytest
from scripts.build_engines import AGE

from holdfast.config.secret import Secret
from holdfast.content.age import whole
from holdfast.content.age.header import HeaderReader
from holdfast.content.age.keys import Identity, Passphrase
from holdfast.disk.key_files import read_keys, write_key
from tests.age_vectors import encrypted
from tests.commands import Commands
from tests.engines import engine_path
from tests.support import script_output

SIZES = (0, 1, 65535, 65536, 65537, 10_000_000)
CASES = [*product(SIZES, (1, 2, 20))]  # with the number of readers
CLASSIC = [True, False]

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def readers():
    """Twenty identities of each kind."""
    return {kind: [Identity.generate(classic=kind) for _ in range(20)] for kind in CLASSIC}


def run_age(*arguments, **options):
    command = [engine_path(AGE), *arguments]
    done = subprocess.run(command, capture_output=True, check=False, **options)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return done.stdout


def recipients_of(identities):
    return [identity.recipient for identity in identities]


@pytest.mark.parametrize(
    ("size", "count"),
    [pytest.param(*case, marks=[slow] if case[0] > 1_000_000 else []) for case in CASES],
)
def test_pyrage(size, count, readers):
    content, identities = os.urandom(size), readers[True][:count]
    file = encrypted(content, recipients_of(identities))
    theirs = [pyrage.x25519.Recipient.from_str(one.recipient.text) for one in identities]
    answer = pyrage.encrypt(content, theirs)
    for identity in (identities[0], identities[-1]):
        secret = pyrage.x25519.Identity.from_str(identity.text.reveal())
        assert pyrage.decrypt(file, [secret]) == content
        assert whole.decrypt(answer, [identity]) == content


@slow
@pytest.mark.parametrize("classic", CLASSIC)
@pytest.mark.parametrize(("size", "count"), CASES)
def test_the_command_age(size, count, classic, readers, tmp_path):
    content, identities = os.urandom(size), readers[classic][:count]
    (tmp_path / "plain").write_bytes(content)
    (tmp_path / "ours.age").write_bytes(encrypted(content, recipients_of(identities)))
    options = [option for one in identities for option in ("-r", one.recipient.text)]
    run_age("--encrypt", *options, "-o", tmp_path / "theirs.age", tmp_path / "plain")
    for identity in (identities[0], identities[-1]):
        (tmp_path / "key").write_text(identity.text.reveal())
        assert run_age("--decrypt", "-i", tmp_path / "key", tmp_path / "ours.age") == content
        assert whole.decrypt((tmp_path / "theirs.age").read_bytes(), [identity]) == content


@slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js with npm is not installed")
@pytest.mark.timeout(300)
def test_age_in_javascript(javascript_packages, readers, tmp_path):
    jobs, checks = [], []
    for number, (size, count, classic) in enumerate(
        (size, count, classic) for size, count in CASES for classic in CLASSIC
    ):
        content, identities = os.urandom(size), readers[classic][:count]
        plain, ours, theirs, opened = (tmp_path / f"{number}.{name}" for name in range(4))
        plain.write_bytes(content)
        ours.write_bytes(encrypted(content, recipients_of(identities)))
        texts = [recipient.text for recipient in recipients_of(identities)]
        jobs += [
            {"source": str(plain), "target": str(theirs), "recipients": texts},
            {
                "source": str(ours),
                "target": str(opened),
                "identity": identities[-1].text.reveal(),
            },
        ]
        checks.append((content, theirs, opened, identities[-1]))
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    here = Path(__file__).parent / "js"
    assert script_output("node", "age.mjs", tmp_path / "jobs.json", cwd=here) == len(jobs)
    for content, theirs, opened, identity in checks:
        assert opened.read_bytes() == content
        assert whole.decrypt(theirs.read_bytes(), [identity]) == content


@slow
def test_a_reader_who_was_added_opens_the_file_with_age(readers, tmp_path):
    content, (first, second, *_) = os.urandom(200_000), readers[False]
    reader = HeaderReader()
    payload = reader.update(encrypted(content, [first.recipient]))
    header = reader.finish()
    shared = header.with_recipients_added(header.unwrap([first]), [second.recipient])
    (tmp_path / "shared.age").write_bytes(shared.raw + payload)
    for identity in (first, second):
        (tmp_path / "key").write_text(identity.text.reveal())
        assert run_age("--decrypt", "-i", tmp_path / "key", tmp_path / "shared.age") == content


@slow
def test_a_passphrase_of_ours_opens_with_pyrage_and_theirs_with_ours():
    passphrase = Passphrase(Secret("correct hörse"))
    file = whole.encrypt(b"keys", [passphrase])
    assert file.split()[4] == b"18"
    assert pyrage.passphrase.decrypt(file, "correct hörse") == b"keys"
    answer = pyrage.passphrase.encrypt(b"theirs", "correct hörse")
    assert whole.decrypt(answer, [passphrase]) == b"theirs"


@slow
@pytest.mark.parametrize("classic", CLASSIC)
def test_key_files_that_are_locked_on_a_terminal(readers, tmp_path, classic):
    """`age -p` locks a key file that we open, and opens one that we have locked."""
    identity, content = readers[classic][0], b"low tide"
    age = Commands(tmp_path, command=(engine_path(AGE),))
    folder = age.folder
    (folder / "key.txt").write_text(f"# a key\n{identity.text.reveal()}\n")
    typed = {"Enter passphrase": "correct horse\n", "Confirm passphrase": "correct horse\n"}
    code, shown = age.on_terminal("-p", "-o", "theirs.age", "key.txt", typed=typed)
    assert code == 0, shown
    (theirs,) = read_keys(Secret(str(folder / "theirs.age")), lambda _: Secret("correct horse"))
    assert theirs.text == identity.text
    write_key(folder / "ours.age", identity, lambda: Secret("correct horse"))
    (folder / "content.age").write_bytes(encrypted(content, [identity.recipient]))
    words = ("-d", "-i", "ours.age", "-o", "content", "content.age")
    code, shown = age.on_terminal(*words, prompt="passphrase", typed="correct horse\n")
    assert code == 0, shown
    assert (folder / "content").read_bytes() == content
    code, shown = age.on_terminal(*words, prompt="passphrase", typed="wrong horse\n")
    assert (code, "incorrect passphrase" in shown) == (1, True), shown
