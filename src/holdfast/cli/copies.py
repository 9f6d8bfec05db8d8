"""The commands `health` and `drill`: whether every pin of `copies` is proven at enough sites."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Final

import holdfast
from holdfast.cli import exit_codes, options, output
from holdfast.cli.options import flag, option
from holdfast.cli.reports import BatchReport
from holdfast.cli.run import Run, command, group
from holdfast.errors import NotFoundError

commands: Final = group()
KINDS: Final = {"enough": "all copies", "short": "fewer than want", "critical": "fewer than need"}
STATES: Final = ("proven", "claimed", "missing")
SAMPLE = Annotated[
    str, option("SAMPLE", "How much to check: 2% of all, part 3/30 of all blocks, or 500M.")
]


@command(commands, options.connection_options, options.gateway_options)
def health(
    run: Run,
    *,
    sample: SAMPLE = "2%",
    fix: Annotated[bool, flag("Make the copies that are missing.", "--fix")] = False,
    adopt: Annotated[bool, flag("Adopt pins that only members have.", "--adopt")] = False,
) -> None:
    """Show which content of provider copies has too few copies.

    It asks every member for its list of pins, and for random blocks, which must match their CIDs.
    It writes a line for each pin that is proven at too few sites, then a summary for each member.
    With --json, every pin gets a line. The exit code is 20 if a pin has fewer copies than `want`,
    21 if one has fewer than `need`, and 1 if --adopt could not read a member's list.

    For example, every night: holdfast health --use safe --fix
    """
    with run.copies() as client:
        report = HealthReport(run, client.provider, adopt=adopt)
        with report.shown("health", unit="pins") as bar:
            for pin in client.health(sample=sample, fix=fix, adopt=adopt, progress=bar):
                report.check(pin)
            report.is_over = True


@command(commands, options.connection_options, options.gateway_options)
def drill(
    run: Run,
    *,
    without: Annotated[str, option("MEMBER", "The member to leave out.")],
    sample: SAMPLE = "2%",
) -> None:
    """Say whether you could leave a member of copies today.

    It asks only the other members for their lists, and for random blocks of random pins. Each pin
    that would be at fewer sites than `need` gets a line, and the exit code is then 21. With --json,
    every pin gets a line.

    Run this before you leave a service: holdfast drill --use safe --without pinata
    """
    with run.copies() as client:
        provider: Any = client.provider
        report = DrillReport(run, provider, without)
        with report.shown("drill", unit="pins") as bar:
            others = holdfast.Client(provider.without(without))
            for pin in others.health(sample=sample, progress=bar):
                report.check(pin)
            if not report.counts:
                raise NotFoundError("there is no pin that could be read")
            report.is_over = True


class HealthReport(BatchReport):
    """How many copies the pins have; a line for each pin that gets one of the `codes`.

    Attributes:
        codes: The exit code where a pin is "short" of copies, or has fewer than are needed.
    """

    codes: Mapping[str, int] = {"short": exit_codes.FEWER, "critical": exit_codes.TOO_FEW}

    def __init__(self, run: Run, provider: Any, without: str = "", *, adopt: bool = False) -> None:
        super().__init__(run)
        self._adopt = adopt
        self._provider = provider
        self._without = without
        self._copies: Counter[tuple[str, str]] = Counter()
        self._oldest = math.inf

    def check(self, pin: Any) -> None:
        """Report what the members have of a pin, in a line of its own if it needs attention."""
        copies = [(name, state) for state in STATES for name in getattr(pin, state)]
        self._copies.update(copies)
        self._oldest = min(self._oldest, pin.last_proof or math.inf)
        sites = {member.site for member in self._provider.members if member.name in pin.proven}
        where = ", ".join(f"{name}: {state}" for name, state in copies) or "nowhere"
        state = "short" if len(sites) < pin.want else "enough"
        state = "critical" if len(sites) < self._provider.need else state
        self.counts[state] += 1
        self.code: int = max(self.code, self.codes.get(state, 0))
        if self._run.as_json:
            output.say_json(asdict(pin))
        elif state in self.codes:
            line = f"{len(sites)} of {pin.want}  {output.cid_column(pin.cid)}  {where}  {pin.name}"
            self._waiting.append(partial(output.say, line))

    def summary(self) -> str:
        """Return what was seen of all pins, or how many were seen before an interrupt."""
        pins = output.count_text(self.counts.total(), "pin")
        if self.is_over:
            return self.conclusion(pins)
        return f"stopped after {pins}; run the same command again" if self.counts else ""

    def conclusion(self, pins: str) -> str:
        """Return a line for each member, and the totals."""
        lines, find = [], self._provider.ledger.find_verdict
        for member in self._provider.members:
            facts = [f"{state} {self._copies[member.name, state]:,}" for state in STATES]
            if (down := find(member.name, "down")) is not None:
                facts.append(f"failing since {output.time_text(down.since)}: {down.reason}")
                if self._adopt:
                    self.remark = "some pins were not adopted: run --adopt again later"
                    self.code = max(self.code, exit_codes.FAILED)
            elif (verdict := find(member.name, "unpin")) is not None:
                facts.append(verdict.reason)
            lines.append(f"{member.name} (site {member.site}): {', '.join(facts)}")
        totals = [pins] if self.counts else ["no pins; --adopt adds those of the members"]
        totals += [f"{KINDS[state]}: {count:,}" for state, count in sorted(self.counts.items())]
        if self._oldest < math.inf:
            totals.append(f"oldest proof: {output.time_text(int(self._oldest))}")
        return "\n".join([*lines, "; ".join(totals)])


class DrillReport(HealthReport):
    """Whether the pins can be read without one of the members."""

    codes: Mapping[str, int] = {"critical": exit_codes.TOO_FEW}

    def conclusion(self, pins: str) -> str:
        """Return a sentence that says whether the member could be left today."""
        name, critical, short = self._without, self.counts["critical"], self.counts["short"]
        if critical:
            return f"you cannot leave {name} today: too few other copies of {critical:,} of {pins}"
        text = f"you could leave {name} today: {pins} can be read without it"
        then = f"{short:,} would be at fewer than {self._provider.want} sites"
        return f"{text}; {then}: add a member and run `holdfast health --fix`" if short else text
