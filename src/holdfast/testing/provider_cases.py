"""Settings, inputs and checks that the blocking and the async tests of providers share."""

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
from holdfast.errors import InvalidCIDError, UnsupportedError
from holdfast.records import Pin
from holdfast.sources.blob import Blob
from holdfast.sources.local_cids import compute_cid

NOWHERE: Final = compute_cid(b"kept by nobody, one hopes: holdfast.testing")
NO_CIDS: Final = ("", "nonsense", "Qm", "..", "../../etc/passwd", NOWHERE[:-1], f"{NOWHERE}é")
VALUES: Final[Sequence[Any]] = (
    *(None, True, 0, -1.5, 10**40, "", "text", [], {}, [[]], {"": {"": []}}),
    {"name": "Zoë", "emoji": "🌊", "line": "\u2028", "nul": "\0", "tags": ["a", 1, None, False]},
)
NO_JSON: Final = (b"", b"not json", b"\xff", b'{"open":', b'{"a":NaN}')
# Sizes around those of blocks: 256 KiB and 1 MiB.
SIZES: Final = (0, 1, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, 1 << 20, (1 << 20) + 1, 3_000_000)
SPOOLED: Final = 5_000_000  # bytes; a `Blob` of this size is in a temporary file


class Contract:
    """The settings and fixtures of the tests of providers, blocking and async."""

    # pytest must not collect the classes of this package. In a user's subclass the value is text:
    # False would hide it, and True would collect it whatever its name.
    __test__: ClassVar[bool | str] = False

    struck_out: ClassVar[frozenset[str]] = frozenset()
    large_size: ClassVar[int] = 64 << 20
    memory_limit: ClassVar[int] = 40 << 20
    patience: ClassVar[float] = 30.0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__test__" not in vars(cls) and not cls.__module__.startswith("holdfast.testing."):
            cls.__test__ = "by its name"
        tests = {name for name in dir(cls) if name.startswith("test_")}
        if unknown := sorted(set(cls.struck_out) - tests):
            raise TypeError(
                f"struck_out of {cls.__name__} names unknown tests: {', '.join(unknown)}"
            )

    @pytest.fixture(autouse=True)
    def _struck_out(self, request: pytest.FixtureRequest) -> None:
        if request.node.originalname in self.struck_out:
            pytest.skip(f"struck out by {type(self).__name__}")

    # The methods have other names than their fixtures, so that for a type checker a fixture of a
    # subclass does not override them, and may be async. pytest registers fixtures in the order of
    # the method names, and uses the last one of a name.

    @pytest.fixture(name="provider")
    def _provider(self) -> NoReturn:
        """The provider to test, a new one for each test."""
        pytest.fail(f"{type(self).__name__} must define the fixture provider", pytrace=False)

    @pytest.fixture(name="directory_cid")
    def _directory_cid(self) -> NoReturn:
        """The CID of a directory that the provider has."""
        pytest.skip("the fixture directory_cid is not defined")

    @pytest.fixture(name="directory_file")
    def _directory_file(self) -> NoReturn:
        """The path of a file in that directory, such as ``a/b.txt``, and its bytes."""
        pytest.skip("the fixture directory_file is not defined")


class Interrupted(Exception):  # noqa: N818 - not an error: a test stops a call with it
    """Raised by the tests during a call."""


def interrupt(done: int, total: int | None) -> NoReturn:  # noqa: ARG001 - a progress function
    """Raise `Interrupted` at the first progress."""
    raise Interrupted


@contextmanager
def interrupted(call: str) -> Iterator[None]:
    """Fail the test unless `Interrupted` ends the block."""
    __tracebackhide__ = True
    try:
        yield
    except Interrupted:
        return
    pytest.fail(f"{call} reported no progress, or ignored an error that progress raised")


def unique_json() -> str:
    """Return JSON that nothing else has pinned, so that it can be deleted from a shared account."""
    return f'{{"salt":"{secrets.token_hex(16)}"}}'


def require(provider: Any, *operations: str) -> None:
    """Skip the test if `provider` lacks one of `operations`."""
    for operation in operations:
        if not provider.supports(operation):
            pytest.skip(f"{provider.title} has no {operation}")


def changes_content(provider: Any) -> bool:
    """Return whether the reader of `provider` makes other content from what is stored."""
    return bool(getattr(getattr(provider, "reader", None), "finishes", ()))


@contextmanager
def supported() -> Iterator[None]:
    """Skip the test if the provider says that it cannot do what the block asks for."""
    try:
        yield
    except UnsupportedError as error:
        pytest.skip(str(error))


def check_pins(pins: Sequence[Pin], expected_cids: Sequence[str], how: str) -> None:
    """Assert that the pins have these CIDs, in any order."""
    __tracebackhide__ = True
    for pin in pins:
        assert isinstance(pin, Pin), f"a pin is a {type(pin).__name__}, not a Pin"
    cids = sorted(str(CID.parse(pin.cid)) for pin in pins)
    expected = sorted(str(CID.parse(cid)) for cid in expected_cids)
    assert cids == expected, f"wrong pins were found {how}"


def names_in(folder: str | os.PathLike[str]) -> list[str]:
    """Return the sorted names in `folder`."""
    return sorted(path.name for path in Path(folder).iterdir())


def possible_cids(data: bytes) -> set[str]:
    """Return the CIDs of `data` in all profiles."""
    return {compute_cid(data, profile=profile) for profile in PROFILES}


def check_methods(provider: object, protocol: type) -> None:
    """Assert that `provider` has all methods of `protocol`."""
    __tracebackhide__ = True
    names = sorted(getattr(protocol, "__abstractmethods__", ()))
    missing = [name for name in names if not callable(getattr(provider, name, None))]
    assert not missing, f"{type(provider).__name__} has no {', '.join(missing)}"


def check_cid(result: object, method: str) -> str:
    """Return `result` if it is a CID, else fail the test."""
    __tracebackhide__ = True
    with suppress(InvalidCIDError):
        if isinstance(result, str):
            CID.parse(result)
            return result
    pytest.fail(f"{method} returned {result!r}, not a CID as str")


def check_json(result: Any, value: Any) -> None:
    """Assert that `result` equals `value`, with the same types of numbers and order of keys."""
    __tracebackhide__ = True
    assert json.dumps(result) == json.dumps(value), "get_json returned another value"


def bytes_of(blob: object) -> bytes:
    """Return the bytes of `blob`; assert that it is a Blob of the right size."""
    __tracebackhide__ = True
    assert isinstance(blob, Blob), f"get_file returned {type(blob).__name__}, not a Blob"
    data = blob.read()
    assert blob.size == len(data), "the Blob's size is not the number of its bytes"
    return data


def check_blob(blob: object, data: bytes) -> None:
    """Assert that `blob` is a Blob with the bytes `data`."""
    __tracebackhide__ = True
    check_bytes(bytes_of(blob), data, "get_file returned")


def check_bytes(result: bytes, data: bytes, what: str) -> None:
    """Fail the test if the bytes differ. pytest takes minutes to compare large bytes itself."""
    __tracebackhide__ = True
    if result == data:
        return
    pairs = enumerate(zip(result, data, strict=False))
    shorter = min(len(result), len(data))
    place = next((place for place, (one, other) in pairs if one != other), shorter)
    pytest.fail(f"{what} {len(result)} bytes that differ from the {len(data)} expected at {place}")


def check_progress(calls: Sequence[tuple[int, int | None]], size: int, call: str) -> None:
    """Assert that `calls` of a progress function report a whole file of `size` bytes."""
    __tracebackhide__ = True
    done = [count for count, _ in calls]
    assert done, f"{call} reported no progress"
    assert done == sorted(done), f"the progress of {call} went backwards"
    assert done[-1] == size, f"the progress of {call} did not end with the file's size"
    totals = {total for _, total in calls}
    assert totals <= {size, None}, f"{call} reported progress of a file of another size"


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """Assert that the block allocates at most `limit` bytes at a time."""
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
    assert most < limit, f"{most:,} bytes were allocated at a time; is the whole file in memory?"
