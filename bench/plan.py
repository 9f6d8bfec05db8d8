"""What a run has: its server, its folder, how often and how long it measures."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.neutral_server import NeutralServer
from bench.peers import Peers
from bench.results import Results


@dataclass(frozen=True)
class Plan:
    """The settings of one run, and where its figures go."""

    server: NeutralServer
    folder: Path
    large_file: Path
    results: Results
    quick: bool = False
    bare: bool = False

    @cached_property
    def peers(self) -> Peers:
        """The peers, installed when they are asked for."""
        return Peers(self.results.unavailable, self.bare)

    @property
    def small_rounds(self) -> int:
        """Rounds of small requests: many short ones, because processors change their pace."""
        return 3 if self.quick else 17

    @property
    def warm_up_seconds(self) -> float:
        """Seconds that each candidate works before its first round, because Node.js gets faster."""
        return 0.3 if self.quick else 1.5

    @property
    def node_rounds(self) -> int:
        """Rounds of stores at nodes."""
        return 3 if self.quick else 12

    @property
    def large_rounds(self) -> int:
        """Rounds of large transfers."""
        return 1 if self.quick else 4

    @property
    def very_large(self) -> int:
        """Bytes of a very large file: four times as many as of the large one."""
        return 4 * self.large_file.stat().st_size

    @property
    def very_large_rounds(self) -> int:
        """Rounds of very large transfers."""
        return 1 if self.quick else 2

    @property
    def start_rounds(self) -> int:
        """Rounds of starting processes."""
        return 3 if self.quick else 15
