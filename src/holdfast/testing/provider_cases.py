"""What both colours of the contract of providers share: its settings, inputs, and checks."""

import json
import os
import secrets
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn

import pytest

from holdfast.config.checks import PROFILES
from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError
from holdfast.files.blob import Blob
from holdfast.files.local_cids import compute_cid

NOWHERE: Final = compute_cid(b"kept by nobody, one hopes: holdfast.testing")
NO_CIDS: Final = ("", "nonsense", "Qm", "..", "../../etc/passwd", NOWHERE[:-1], f"{NOWHERE}é")
VALUES: Final[Sequence[Any]] = (
    *(None, True, 0, -1.5, 10**40, "", "text", [], {}, [[]], {"": {"": []}}),
    {"name": "Zoë", "emoji": "🌊", "line": "\u2028", "nul": "\0", "tags": ["a", 1, None, False]},
)
NO_JSON: Final = (b"", b"not json", b"\xff", b'{"open":', b'{"a":NaN}')
# Around the sizes at which files are cut into blocks: 256 KiB, and 1 MiB.
SIZES: Final = (0, 1, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, 1 << 20, (1 << 20) + 1, 3_000_000)
SPOOLED: Final = 5_000_000  # bytes that a `Blob` of ours would hold in a file


class Contract:
    """What a user of the contract may say of a provider, in either colour."""

    # Ours are for subclassing. In a class of a user it is neither False nor True, with which pytest
    # would collect it whatever its name.
    __test__: ClassVar[bool | str] = False

    struck_out: ClassVar[frozenset[str]] = frozenset()
    large_size: ClassVar[int] = 64 << 20
    memory_limit: ClassVar[int] = 40 << 20
    patience: ClassVar[float] = 30.0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__test__" not in vars(cls) and not cls.__module__.startswith("holdfast.testing."):
            cls.__test__ = "by its name"
        unknown = [
            name
            for name in sorted(cls.struck_out)
            if not name.startswith("test_") or not hasattr(cls, name)
        ]
        if unknown:
            raise TypeError(f"{cls.__name__} strikes out what is no test: {', '.join(unknown)}")

    @pytest.fixture(autouse=True)
    def _struck_out(self, request: pytest.FixtureRequest) -> None:
        if request.node.originalname in self.struck_out:
            pytest.skip(f"struck out by {type(self).__name__}")

    # Under names of their own: a fixture of a subclass is then no override in the eyes of a type
    # checker, and may be async. pytest takes fixtures in the order of these names, the last one of
    # a kind counts.

    @pytest.fixture(name="provider")
    def _provider(self) -> NoReturn:
        """The provider to test, a fresh one for each test."""
        pytest.fail(f"{type(self).__name__} must define the fixture provider", pytrace=False)

    @pytest.fixture(name="directory_cid")
    def _directory_cid(self) -> NoReturn:
        """The CID of a directory that the provider keeps."""
        pytest.skip("the fixture directory_cid is not defined")

    @pytest.fixture(name="directory_file")
    def _directory_file(self) -> NoReturn:
        """The path of a file below that directory, such as ``a/b.txt``, and its bytes."""
        pytest.skip("the fixture directory_file is not defined")


class Interrupted(Exception):  # noqa: N818 - no error, but a test that stops a call
    """Raised by the tests in the midst of a call."""


def interrupt(done: int, total: int | None) -> NoReturn:  # noqa: ARG001 - as progress is told
    """Stop a call as soon as there is progress."""
    raise Interrupted


@contextmanager
def interrupted(call: str) -> Iterator[None]:
    """Fails where `call` goes on to its end in spite of `interrupt`."""
    __tracebackhide__ = True
    try:
        yield
    except Interrupted:
        return
    pytest.fail(f"{call} told no progress, or went on when progress raised an error")


def unique_json() -> str:
    """JSON that nobody else keeps, also not in an account that is shared: it can be deleted."""
    return f'{{"salt":"{secrets.token_hex(16)}"}}'


def names_in(folder: str | os.PathLike[str]) -> list[str]:
    """What stands in `folder`."""
    return sorted(path.name for path in Path(folder).iterdir())


def possible_cids(data: bytes) -> set[str]:
    """The CIDs that `data` may have."""
    return {compute_cid(data, profile=profile) for profile in PROFILES}


def check_methods(provider: object, protocol: type) -> None:
    """See that `provider` has what `protocol` asks for."""
    __tracebackhide__ = True
    names = sorted(getattr(protocol, "__abstractmethods__", ()))
    missing = [name for name in names if not callable(getattr(provider, name, None))]
    assert not missing, f"{type(provider).__name__} has no {', '.join(missing)}"


def check_cid(result: object, method: str) -> str:
    """`result`, if it is a CID as it should be."""
    __tracebackhide__ = True
    with suppress(InvalidCIDError):
        if isinstance(result, str):
            CID.parse(result)
            return result
    pytest.fail(f"{method} returned {result!r}, not a CID as str")


def check_json(found: Any, value: Any) -> None:
    """See that `found` is `value`, to the type of each number and the order of the keys."""
    __tracebackhide__ = True
    assert json.dumps(found) == json.dumps(value), "get_json gave another value"


def bytes_of(blob: object) -> bytes:
    """The bytes of `blob`, if it is a Blob."""
    __tracebackhide__ = True
    assert isinstance(blob, Blob), f"get_file returned {type(blob).__name__}, not a Blob"
    data = blob.read()
    assert blob.size == len(data), "the Blob's size is not the number of its bytes"
    return data


def check_blob(blob: object, data: bytes) -> None:
    """See that `blob` is a Blob of these bytes."""
    __tracebackhide__ = True
    check_bytes(bytes_of(blob), data, "get_file gave")


def check_bytes(found: bytes, data: bytes, what: str) -> None:
    """See that the bytes are the same; for the difference of large ones, pytest takes minutes."""
    __tracebackhide__ = True
    if found == data:
        return
    pairs = enumerate(zip(found, data, strict=False))
    place = next((place for place, (one, other) in pairs if one != other), None)
    if place is None:
        place = min(len(found), len(data))
    pytest.fail(f"{what} {len(found)} bytes for {len(data)}, and others from byte {place} on")


def check_progress(calls: Sequence[tuple[int, int | None]], size: int, call: str) -> None:
    """See that `calls` of progress tell of a file of `size` bytes, up to its end."""
    __tracebackhide__ = True
    done = [each for each, _ in calls]
    assert done, f"{call} told no progress"
    assert done == sorted(done), f"the progress of {call} went backwards"
    assert done[-1] == size, f"the progress of {call} did not end with the file's size"
    totals = {total for _, total in calls}
    assert totals <= {size, None}, f"{call} told progress of a file of another size"


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """Fails where more than `limit` bytes were allocated at a time within it."""
    __tracebackhide__ = True
    is_ours = not tracemalloc.is_tracing()
    if is_ours:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        yield
        most = tracemalloc.get_traced_memory()[1] - before
    finally:
        if is_ours:
            tracemalloc.stop()
    assert most < limit, f"{most:,} bytes were allocated at a time; does it hold the file whole?"
