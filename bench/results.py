"""The figures of one run: every round of every candidate, and their medians."""

import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.goals import GOALS
from bench.steal import Steal, work_seconds
from bench.workers import WorkerError

MOST_STEAL = 0.05  # of the processors' time, in a round that counts
SPARE_SECONDS = 90.0  # for the rounds of a run that are repeated


@dataclass(frozen=True, slots=True)
class Figure:
    """What one candidate did at one work, in each round."""

    section: str
    work: str
    candidate: str
    unit: str
    values: list[float]

    @property
    def median(self) -> float:
        """The figure that counts."""
        return statistics.median(self.values)

    def in_round(self, number: int, rounds: int) -> float:
        """Return the median of one of the rounds, each of which has as many values."""
        size = len(self.values) // rounds
        return statistics.median(self.values[number * size : (number + 1) * size])

    @property
    def spread(self) -> float:
        """How far the rounds lie apart, as a part of the median."""
        return (max(self.values) - min(self.values)) / self.median if self.median else 0.0


@dataclass(frozen=True, slots=True)
class _Round:
    """How much was stolen in a round, and how many values each figure had before and after it."""

    steal: float
    before: Counter[tuple[str, str]]
    after: Counter[tuple[str, str]]


@dataclass(slots=True)
class Results:
    """All figures, in the order in which they were measured.

    Attributes:
        environment: The machine, the versions, the date, the server, the seconds that the run took.
        figures: By work and candidate.
        unavailable: For a peer that did not run, or cannot do a work: the reason.
        steal: For each round, the part of the processors' time that the host gave to others.
        paces: How long a fixed piece of work took before each round, in seconds.
        spare: The seconds that are left for rounds that are repeated.
    """

    environment: dict[str, Any] = field(default_factory=dict)
    figures: dict[tuple[str, str], Figure] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    steal: list[float] = field(default_factory=list)
    paces: list[float] = field(default_factory=list)
    spare: float = SPARE_SECONDS

    def add(self, section: str, work: str, candidate: str, unit: str, value: float) -> None:
        """Add the figure of one round."""
        figure = Figure(section, work, candidate, unit, [])
        self.figures.setdefault((work, candidate), figure).values.append(value)

    def tolerant(self, name: str, work: Callable[[int], None]) -> Callable[[int], None]:
        """Return the work of a candidate, which a peer may fail: then it is not asked again."""
        has_failed = False

        def run(number: int) -> None:
            nonlocal has_failed
            try:
                if not has_failed:
                    work(number)
            except WorkerError as error:
                if name.startswith("holdfast"):
                    raise
                has_failed = True
                self.unavailable[name] = str(error)

        return run

    def take_turns(self, rounds: int, candidates: Sequence[Callable[[int], None]]) -> None:
        """Let every candidate work once a round; each round begins with another one.

        While the host takes the processors away, a round does not count: if there is time, there
        are up to twice as many, and the calmest are kept. Candidates get the number of the round.
        """
        taken: list[_Round] = []
        calm = 0
        while calm < rounds and len(taken) < 2 * rounds:
            number = len(taken)
            is_repeated = number >= rounds
            if is_repeated and self.spare <= 0:
                break
            began = time.perf_counter()
            self.paces.append(work_seconds())
            before, steal = self._counts(), Steal()
            start = number % len(candidates)
            for candidate in [*candidates[start:], *candidates[:start]]:
                candidate(number)
            taken.append(_Round(steal.part, before, self._counts()))
            calm += taken[-1].steal <= MOST_STEAL
            if is_repeated:
                self.spare -= time.perf_counter() - began
        counted = sorted(taken, key=lambda turn: turn.steal)[:rounds]
        for turn in reversed(taken):
            if turn not in counted:
                self._forget(turn)
        self.steal += [turn.steal for turn in counted]

    def _counts(self) -> Counter[tuple[str, str]]:
        return Counter({key: len(figure.values) for key, figure in self.figures.items()})

    def _forget(self, taken: "_Round") -> None:
        """Remove the figures of a round; later rounds that are not kept are removed before."""
        for key, count in taken.after.items():
            del self.figures[key].values[taken.before[key] : count]
            if not self.figures[key].values:
                del self.figures[key]

    def median(self, work: str, candidate: str) -> float | None:
        """Return a median; None if that was not measured."""
        figure = self.figures.get((work, candidate))
        return None if figure is None else figure.median

    def ratios(self) -> list["Ratio"]:
        """Return the ratio for each goal whose figures were measured."""
        ratios = []
        for goal in GOALS:
            ours = self.figures.get((goal.work, goal.ours))
            others = [
                figure for key in goal.against if (figure := self.figures.get(key)) is not None
            ]
            if ours is None or len(others) < len(goal.against):
                continue
            limit = min(figure.median for figure in others)
            ratio = _ratio_of_rounds(ours, others)
            cpu = self.median(f"{goal.work}-cpu", goal.ours)
            cpu_of_other = self.median(f"{goal.work}-cpu", goal.against[0][1])
            by_cpu = cpu_of_other / cpu if cpu and cpu_of_other else None
            ratios.append(
                Ratio(goal.title, goal.goal, goal.at_most, ours.median, limit, ratio, by_cpu)
            )
        return ratios

    def to_json(self) -> dict[str, Any]:
        """Return everything as a JSON value."""
        figures = [
            {**asdict(figure), "median": figure.median, "spread": round(figure.spread, 3)}
            for figure in self.figures.values()
        ]
        ratios = [
            {**asdict(ratio), "ratio": round(ratio.ratio, 3), "met": ratio.met}
            for ratio in self.ratios()
        ]
        environment = {**self.environment, "unavailable": self.unavailable}
        environment |= {"steal": self.steal, "paces": self.paces}
        return {**environment, "ratios": ratios, "figures": figures}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Results":
        """Return the results that `to_json` wrote."""
        facts = {**value}
        facts.pop("ratios")
        figures = [
            Figure(*(row[name] for name in ("section", "work", "candidate", "unit", "values")))
            for row in facts.pop("figures")
        ]
        unavailable = facts.pop("unavailable")
        steal, paces = facts.pop("steal", []), facts.pop("paces", [])
        by_key = {(figure.work, figure.candidate): figure for figure in figures}
        return cls(facts, by_key, unavailable, steal, paces)

    def write(self, path: Path) -> None:
        """Write everything to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_json(), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ours against a limit, and the goal for it.

    `ratio` is the median of the ratios of the rounds: what slows the machine down for some seconds
    slows both. `by_cpu` is the same by the CPU time of the client, which depends less on what else
    the machine does.
    """

    title: str
    goal: float
    at_most: bool
    ours: float
    against: float
    ratio: float
    by_cpu: float | None = None

    @property
    def met(self) -> bool:
        """Whether the goal is met, as it is printed."""
        shown = round(self.ratio, 2)
        return shown <= self.goal if self.at_most else shown >= self.goal


def _ratio_of_rounds(ours: Figure, others: list[Figure]) -> float:
    """Divide our figure by the smallest of the others in each round; return the median.

    Where a round has several figures, their median counts. Figures that
    were not taken in rounds are compared as they are.
    """
    rounds = len(ours.values)
    if any(len(figure.values) % rounds for figure in others):
        return ours.median / min(figure.median for figure in others)
    limits = [min(figure.in_round(number, rounds) for figure in others) for number in range(rounds)]
    return statistics.median(
        value / limit for value, limit in zip(ours.values, limits, strict=True)
    )
