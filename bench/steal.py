"""How much the host of a virtual machine gives to others: time, and the pace of its processors."""

import time
from dataclasses import dataclass, field
from pathlib import Path

STAT = Path("/proc/stat")
FIELDS = 8  # user, nice, system, idle, iowait, irq, softirq, steal
IDLE = (3, 4)
STEAL = 7
WORK = 100_000  # numbers


def read_ticks() -> list[int]:
    """Return the ticks of all processors since the start; none where Linux does not tell them."""
    try:
        first = STAT.read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return [0] * FIELDS
    return [int(tick) for tick in first.split()[1 : FIELDS + 1]]


@dataclass(frozen=True, slots=True)
class Steal:
    """How much time the host took since this object was made."""

    start: list[int] = field(default_factory=read_ticks)

    @property
    def part(self) -> float:
        """The part of the time that was asked for and not given: 0 on a quiet host."""
        ticks = [now - then for now, then in zip(read_ticks(), self.start, strict=True)]
        busy = sum(ticks) - sum(ticks[number] for number in IDLE)
        return ticks[STEAL] / busy if busy else 0.0


def work_seconds() -> float:
    """Return how long a fixed piece of work takes now, some 10 ms.

    Two virtual processors may share a real one. Then each is slower, and no time is missing.
    """
    start = time.perf_counter()
    sum(number * number for number in range(WORK))
    return time.perf_counter() - start
