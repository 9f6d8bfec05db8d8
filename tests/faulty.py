"""What the tests of wrong replies share: a patient client, and gateways of a few blocks."""

import os

import pytest

from holdfast.content.cid import CID
from holdfast.protocol.gateway import RAW_TYPE
from holdfast.testing import Scripted
from tests.support import GATEWAY_TOKEN, TOKEN, config_for


def patient_config(server, **changes):
    """Four attempts, as by default, but with short waits."""
    fields = {
        "timeouts": {"connect": 5, "read": 5, "write": 5, "total": 20},
        "retries": {"attempts": 4, "base": 0.01, "cap": 0.05},
    }
    return config_for(server, **{**fields, **changes})


def assert_shows_no_token(error):
    notes = "".join(getattr(error, "__notes__", []))
    for text in (str(error), repr(error), repr(vars(error)), notes):
        assert TOKEN not in text
        assert GATEWAY_TOKEN not in text


# What may happen to a file of 5 MB while it is sent, and what the error says.
file_changes = pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: os.truncate(path, 2_500_000), "ended after"),
        (lambda path: os.truncate(path, 7_000_000), "grew beyond"),
        (lambda path: os.utime(path, (1, 1)), "was written to"),
    ],
    ids=["shrinks", "grows", "changes"],
)


def changing_file(folder, change):
    """A file for `file_changes`, and a `progress` that changes it once it is sent in part."""
    path = folder / "moving"
    path.write_bytes(b"a" * 5_000_000)
    changed = []

    def progress(done, total):
        if done and not changed:
            changed.append(done)
            change(path)

    return path, progress


def flipped(data, at):
    """`data` with one bit of its byte number `at` flipped."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def gateway_of(blocks, plain):
    """A script: blocks as they are, no archives, and what `plain` gives for the content itself."""

    def script(request):
        path, _, query = request.target.partition("?")
        if not query:
            return plain(request)
        block = blocks.get(CID.parse(path.rpartition("/")[2])) if query == "format=raw" else None
        if block is None:
            return Scripted(status=406)
        return Scripted(body=block, headers={"Content-Type": RAW_TYPE})

    return script
