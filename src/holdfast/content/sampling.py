"""Which blocks of a DAG a provider is asked for, to prove that it has the whole DAG.

With `s` random blocks, a provider that lacks a share `p` of them is found with the probability
1 - (1 - p)^s: 300 blocks find a loss of 1 % in 95 of 100 cases.
"""

import heapq
import math
import re
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from holdfast.content.blocks import MAX_BLOCK
from holdfast.content.cid import CID
from holdfast.readable_size import parse_size

Random: TypeAlias = Callable[[], float]
FEWEST: Final = 4  # blocks of each DAG that are asked for, of a share
MOST: Final = 64
FEWEST_PINS: Final = 300  # pins of a run that are asked about, of a share
MOST_BY_SIZE: Final = 100_000  # small blocks that are asked for, of a number of bytes: some 20 MiB
UNKNOWN_SIZE: Final = 1 << 18  # bytes that are counted for a block of unknown size
_SHARE: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%")
_PART: Final = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Sample:
    """How many blocks are asked for: a share of them, one part of all, or a number of bytes.

    Attributes:
        share: The share of the blocks of each DAG, at least `FEWEST` and at most `MOST` blocks.
        part: The number of the part, from 1 to `parts`.
        parts: Into how many parts the blocks fall, each by its hash. If all parts are asked for,
            each in a run of its own, every block is asked for.
        max_bytes: How many bytes the blocks may have together.

    Example:
        >>> Sample.parse("2%").share, Sample.parse("3/30").parts, Sample.parse("500M").max_bytes
        (0.02, 30, 524288000)
    """

    share: float = 0.0
    part: int = 0
    parts: int = 0
    max_bytes: int = 0

    @classmethod
    def parse(cls, text: str) -> "Sample":
        """Return the sample that `text` describes; raise ValueError if it describes none."""
        text = text.strip()
        if (match := _SHARE.fullmatch(text)) and 0 < float(match[1]) <= 100:
            return cls(share=float(match[1]) / 100)
        if (match := _PART.fullmatch(text)) and 1 <= int(match[1]) <= int(match[2]):
            return cls(part=int(match[1]), parts=int(match[2]))
        with suppress(ValueError):
            if max_bytes := parse_size(text):
                return cls(max_bytes=max_bytes)
        raise ValueError(
            f"{text!r} is not a sample: write a share of the blocks such as 2%, a part of all such "
            "as 3/30, or a size such as 500M"
        )


DEFAULT_SAMPLE: Final = Sample(share=0.02)


class SamplePicker:
    """Chooses blocks while a DAG is walked, with little memory however large the DAG is.

    Args:
        sample: How many blocks to choose.
        random: Returns a random number from 0 to 1.
        asked: Blocks that were asked for before. They are chosen only if there are no others.

    Example:
        >>> picker = SamplePicker(Sample.parse("1/1"), lambda: 0.5)
        >>> [str(cid)[-4:] for cid in picker.add([(CID.of_raw(b"x"), 1)])], picker.rest()
        (['siqe'], [])
    """

    def __init__(self, sample: Sample, random: Random, asked: Container[CID] = ()) -> None:
        self._sample = sample
        self._random = random
        self._asked = asked
        self._count = 0
        self._size = 0
        # A heap: the block to give up first is the first one.
        self._chosen: list[tuple[bool, float, int, CID, int]] = []

    def add(self, blocks: Iterable[tuple[CID, int]]) -> list[CID]:
        """Take blocks with their sizes; return those to ask for now. The others are in `rest`."""
        sample, chosen = self._sample, self._chosen
        if sample.parts:
            return [cid for cid, _ in blocks if part_of(cid, sample.parts) == sample.part]
        most = MOST_BY_SIZE if sample.max_bytes else MOST
        limit = sample.max_bytes or MOST * MAX_BLOCK
        for cid, declared in blocks:
            self._count += 1
            size = min(declared or UNKNOWN_SIZE, MAX_BLOCK if declared else limit)
            self._size += size
            entry = (cid not in self._asked, self._random(), self._count, cid, size)
            heapq.heappush(chosen, entry)
            while chosen and (len(chosen) > most or self._size > limit):
                self._size -= heapq.heappop(chosen)[-1]
        return []

    def rest(self) -> list[CID]:
        """Return the blocks to ask for at the end, in a random order."""
        chosen = sorted(self._chosen, reverse=True)
        if self._sample.share:
            share = math.ceil(self._sample.share * self._count)
            del chosen[max(FEWEST, min(share, MOST)) :]
        return [cid for *_, cid, _ in chosen]


class PinPicker:
    """Chooses the pins of a run, and how much is asked of each.

    Of a share, that share of the pins is chosen, about `FEWEST_PINS` at least. Of a part, every pin
    is. Of a number of bytes, as many pins as have that many bytes together.

    Args:
        sample: How much to ask for in the whole run.
        pins: The number of all pins.
        size: The bytes of all pins together.
        random: Returns a random number from 0 to 1.

    Example:
        >>> PinPicker(Sample.parse("2%"), 100_000, 0, lambda: 0.5).pick(1000) is None
        True
    """

    def __init__(self, sample: Sample, pins: int, size: int, random: Random) -> None:
        self._sample = sample
        self._random = random
        self._bytes_left = sample.max_bytes
        self._chance = 1.0
        if sample.share:
            self._chance = max(sample.share, FEWEST_PINS / max(pins, 1))
        elif sample.max_bytes:
            self._chance = sample.max_bytes / max(size, 1)

    def pick(self, size: int) -> Sample | None:
        """Return the sample for the next pin, which has `size` bytes; None to leave it out."""
        if self._random() >= self._chance:
            return None
        if not self._sample.max_bytes:
            return self._sample
        left = self._bytes_left
        self._bytes_left = max(0, left - (size or MAX_BLOCK))
        # A size may be that of the file, whose only block is a little larger.
        return Sample(max_bytes=min(left, max(size, MAX_BLOCK))) if left else None


def part_of(cid: CID, parts: int) -> int:
    """Return the number of the part, from 1 to `parts`, into which a block falls by its hash."""
    return int.from_bytes(cid.digest[-8:]) % parts + 1
