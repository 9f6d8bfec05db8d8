"""What a run has: its server, its folder, how often and how long it measures."""

from dataclasses import dataclass
from pathlib import Path

from bench.neutral_server import NeutralServer
from bench.results import Results


@dataclass(frozen=True, slots=True)
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
