"""Bodies that are cut at the borders of their leaves and verified on several threads."""

import random
import threading
from collections.abc import Callable
from itertools import chain

import pytest

from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025, Profile
from holdfast.content.unixfs.body import BodyCutter, BodyProof
from holdfast.content.unixfs.file_nodes import is_leaf
from holdfast.content.unixfs.files import FileImporter
from holdfast.disk.background import Background, Turns
from holdfast.errors import VerificationError

CONTENT = random.Random(1).randbytes(5_000_000)  # noqa: S311 - not a secret


def proof_of(profile: Profile, start: int = 0, stop: int | None = None) -> BodyProof:
    """Return a proof of CONTENT that has the root block."""
    blocks: dict[CID, bytes] = {}
    importer = FileImporter(profile, blocks.__setitem__)
    importer.update(CONTENT)
    proof = BodyProof(importer.finish().cid, start, stop)
    while proof.need is not None:
        proof.feed_block(blocks[proof.need])
    return proof


def read(proof: BodyProof, body: bytes, size: int) -> tuple[bytes, int]:
    """Feed `body` in chunks of `size`; return what is verified, and how many leaves were cut."""
    cutter = BodyCutter(proof)
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    groups = [parts for chunk in chunks for parts in cutter.cut([chunk])]
    verified, leaves = bytearray(), 0
    for leaf, content in [part for parts in [*groups, cutter.rest()] for part in parts]:
        if leaf is not None and is_leaf(leaf, content):
            leaves += 1
            pieces = proof.update_leaf(leaf, content)
        else:
            pieces = proof.update_all(content)
        verified += b"".join(pieces)
    proof.finish()
    return bytes(verified), leaves


@pytest.mark.parametrize("size", [40_000, 262_144, 1_000_003, 1 << 20, 5_000_000])
@pytest.mark.parametrize(("profile", "leaves"), [(UNIXFS_V1_2025, 5), (UNIXFS_V0_2015, 19)])
def test_every_leaf_is_cut_whatever_the_chunks(profile: Profile, leaves: int, size: int) -> None:
    proof = proof_of(profile)
    # The last leaf of the older layout is too small to be verified ahead.
    assert read(proof, CONTENT, size) == (CONTENT, leaves)


@pytest.mark.parametrize("profile", [UNIXFS_V1_2025, UNIXFS_V0_2015])
def test_a_range_of_the_file_is_returned(profile: Profile) -> None:
    proof = proof_of(profile, 1_500_000, 3_200_000)
    body = CONTENT[proof.position : proof.end]
    assert read(proof, body, 100_000)[0] == CONTENT[1_500_000:3_200_000]


@pytest.mark.parametrize("profile", [UNIXFS_V1_2025, UNIXFS_V0_2015])
def test_a_wrong_byte_is_found_in_every_leaf_and_at_the_end(profile: Profile) -> None:
    bodies = [CONTENT[:-1], CONTENT[:1_048_576], CONTENT + b"x"]
    for at in (0, 1_048_576, 4_999_999):
        wrong = bytearray(CONTENT)
        wrong[at] ^= 1
        bodies.append(bytes(wrong))
    for body in bodies:
        with pytest.raises(VerificationError):
            read(proof_of(profile), body, 700_000)


def test_a_leaf_whose_turn_has_not_come_is_not_accepted() -> None:
    proof = proof_of(UNIXFS_V1_2025)
    first, second = [*BodyCutter(proof).cut([CONTENT[: 2 << 20]])]
    (later,) = second
    assert later.leaf is not None
    assert is_leaf(later.leaf, later.content)
    assert proof.update_leaf(later.leaf, later.content) == []
    assert proof.position == 0
    assert first[0].leaf is not None


def test_the_end_of_a_leaf_does_not_wait_for_the_next_one() -> None:
    proof = proof_of(UNIXFS_V1_2025)
    proof.update(CONTENT[:1000])
    cutter = BodyCutter(proof)
    assert [*cutter.cut([CONTENT[1000:5000]])] == []
    ((part,),) = cutter.cut([CONTENT[5000 : (1 << 20) + 5]])
    assert (part.leaf, b"".join(part.content)) == (None, CONTENT[1000 : 1 << 20])
    assert b"".join(cutter.rest()[0].content) == CONTENT[1 << 20 : (1 << 20) + 5]


def test_a_result_is_yielded_while_later_jobs_run() -> None:
    may_end = threading.Event()
    with Background(2) as background:
        background.submit(int)
        background.submit(may_end.wait, 60)
        results = background.results()
        assert next(results) == 0
        may_end.set()
        assert [*results] == [True]


class TestTurns:
    def test_second_steps_run_in_order_and_alone(self) -> None:
        turns: Turns[int] = Turns()
        done: list[int] = []
        running = threading.Semaphore(1)
        generator = random.Random(2)  # noqa: S311 - not a secret

        def second(number: int) -> int:
            assert running.acquire(blocking=False)
            done.append(number)
            running.release()
            return number

        def first(number: int) -> Callable[[], int]:
            pause = threading.Event()
            seconds = generator.random() / 500
            return lambda: number if not pause.wait(seconds) else -1

        results: list[list[int]] = []
        with Background(4) as background:
            for number in range(200):
                results += background.submit(turns.job(first(number), second))
            results += background.drain()
        assert done == list(range(200))
        assert [*chain.from_iterable(results)] == done

    def test_a_job_leaves_its_second_step_to_the_one_before(self) -> None:
        turns: Turns[str] = Turns()
        may_end = threading.Event()
        before = turns.job(may_end.wait, lambda _: "first")
        after = turns.job(lambda: None, lambda _: "second")
        with Background(2) as background:
            background.submit(before)
            assert after() == []
            may_end.set()
            assert background.drain() == [["first", "second"]]

    def test_no_second_step_runs_after_an_error(self) -> None:
        turns: Turns[None] = Turns()
        seen: list[int] = []

        def fail(_: object) -> None:
            raise ValueError("wrong")

        jobs = [turns.job(lambda: 1, seen.append), turns.job(lambda: 2, fail)]
        later = turns.job(lambda: 3, seen.append)
        assert jobs[0]() == [None]
        with pytest.raises(ValueError, match="wrong"):
            jobs[1]()
        assert later() == []
        assert seen == [1]
