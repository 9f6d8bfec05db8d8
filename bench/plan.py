"""What a run has: its server, its folder, how often and how long it measures."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.content import write_large
from bench.neutral_server import NeutralServer
from bench.results import Results


@dataclass(frozen=True)
class Plan:
    """The settings of one run, and where its figures go."""

    server: NeutralServer
    folder: Path
    results: Results
    quick: bool = False

    @property
    def small_rounds(self) -> int:
        """Rounds of small requests."""
        return 3 if self.quick else 5

    @property
    def small_seconds(self) -> float:
        """Seconds of each candidate in a round of small requests."""
        return 0.3 if self.quick else 0.7

    @property
    def node_seconds(self) -> float:
        """Seconds of each node in a round of stores."""
        return 1.0 if self.quick else 2.0

    @property
    def large_rounds(self) -> int:
        """Rounds of large transfers."""
        return 1 if self.quick else 3

    @cached_property
    def large_file(self) -> Path:
        """A file of 512 MiB, named by its CID, which the server has too."""
        return write_large(self.folder, 128 if self.quick else 512)
