"""The benchmarks themselves are run by `make bench`; here is what they write."""

import json

import pytest
from bench import against, steal
from bench.goals import GOALS
from bench.report import DOCS, RESULTS, make_page, make_plots, write_report
from bench.results import Ratio, Results
from bench.workers import Result, WorkerError

ABOUT = {
    "date": "2026-01-02",
    "machine": {"cpu": "A CPU", "cores": 2, "memory": "8 GiB", "system": "Linux 6"},
    "server": "Go",
    "size": "512 MiB",
    "versions": {"Holdfast": "1.0"},
    "seconds": 90,
}


@pytest.fixture
def results():
    results = Results(dict(ABOUT), unavailable={"requests": "not available: a reason"})
    for ours, bare in ((80.0, 110.0), (90.0, 100.0), (70.0, 90.0)):
        results.add("small", "store-blocking", "holdfast", "requests/s", ours)
        results.add("small", "store-blocking", "urllib3", "requests/s", bare)
        results.add("small", "store-blocking-cpu", "holdfast", "us CPU", 1000.0)
    return results


def test_a_ratio_is_the_median_of_the_rounds_and_stands_beside_its_goal(results):
    (ratio,) = results.ratios()
    assert ratio == Ratio(
        "store, blocking / urllib3", 0.85, at_most=False, ours=80.0, against=100.0, ratio=70 / 90
    )
    assert not ratio.met
    assert Ratio("", 1.3, at_most=True, ours=1.3, against=1.0, ratio=1.3).met
    assert not Ratio("", 1.3, at_most=True, ours=1.31, against=1.0, ratio=1.31).met
    assert len({goal.title for goal in GOALS}) == len(GOALS)


def test_the_limit_of_a_verified_transfer_is_the_slower_of_two(results):
    results.add("transfers", "upload", "holdfast, async", "MB/s", 450.0)
    results.add("transfers", "upload", "holdfast, async, unverified", "MB/s", 2000.0)
    assert len(results.ratios()) == 1  # SHA-256 is missing
    results.add("transfers", "sha256", "SHA-256", "MB/s", 500.0)
    assert results.ratios()[1].ratio == 0.9
    assert results.ratios()[1].met
    results.add("transfers", "upload", "holdfast, async", "MB/s", 225.0)
    results.add("transfers", "upload", "holdfast, async, unverified", "MB/s", 1000.0)
    for rate in (500.0, 500.0, 250.0, 250.0, 250.0):  # three times in a round
        results.add("transfers", "sha256", "SHA-256", "MB/s", rate)
    assert results.ratios()[1].ratio == 0.9


@pytest.fixture
def processors(monkeypatch, tmp_path):
    """A function that sets the ticks of the processors: those of work, and those stolen."""
    path = tmp_path / "stat"
    monkeypatch.setattr(steal, "STAT", path)

    def set_ticks(worked, stolen):
        path.write_text(f"cpu  {worked} 0 0 1000 0 0 0 {stolen} 0 0\ncpu0 1 2 3\n")

    set_ticks(0, 0)
    return set_ticks


@pytest.mark.parametrize(
    ("stolen", "counted"),
    [
        ([0, 50, 0, 30, 0], [0, 2, 4]),  # each is repeated until there are three calm ones
        ([50, 60, 40, 60, 0, 30], [2, 4, 5]),  # no more than twice as many: the calmest are kept
        ([5, 5, 5], [0, 1, 2]),
    ],
)
def test_rounds_from_which_the_host_took_time_do_not_count(processors, stolen, counted):
    results = Results()
    turns = []
    ticks = {"worked": 0, "stolen": 0}

    def candidate(number):
        turns.append(number)
        results.add("small", "work", "holdfast", "requests/s", float(number))
        results.add("small", "work", "holdfast", "requests/s", float(number))
        ticks["worked"] += 100 - stolen[number]
        ticks["stolen"] += stolen[number]
        processors(**ticks)

    def fails_later(number):
        turns.append(-number)
        if number < 1:
            results.add("small", "work", "other", "requests/s", float(number))

    results.take_turns(3, [candidate, fails_later])
    values = results.figures["work", "holdfast"].values
    assert values == [float(number) for number in counted for _ in range(2)]
    assert (("work", "other") in results.figures) == (0 in counted)
    assert sorted(results.steal) == sorted(stolen[number] / 100 for number in counted)
    assert turns[:6] == [0, 0, -1, 1, 2, -2]  # every round begins with another one
    results.spare, rounds = 0.0, len(turns)
    stolen[:] = [50] * 6
    results.take_turns(3, [candidate])
    assert len(turns) - rounds == 3  # none is repeated, because there is no time


def test_the_page_has_the_figures_and_only_the_plots_that_there_are(results):
    results.steal = [0.0, 0.012, 0.2]
    results.paces = [0.010, 0.012, 0.021]
    plots = make_plots(results)
    page = make_page(results, plots)
    assert "the median is 1.2%, the most 20.0%" in page
    assert "took 1.20 times as long as the shortest one (median), 2.10 times at most" in page
    assert list(plots) == ["blocking"]
    assert "A CPU, 2 cores" in page
    assert "| store, blocking / urllib3 | 80.0 | 100 | 0.78 | ≥ 0.85 | **missed** |" in page
    assert "| store | holdfast | 80.0 requests/s | 25% | 1,000 µs |" in page
    assert "- requests: not available: a reason." in page
    assert page.count("images/benchmark-") == 1
    assert "{{" not in page


def test_the_committed_page_and_plots_come_from_the_committed_results(tmp_path):
    write_report(Results.from_json(json.loads(RESULTS.read_bytes())), tmp_path)
    assert (tmp_path / "benchmarks.md").read_text() == (DOCS / "benchmarks.md").read_text()
    for plot in (tmp_path / "images").iterdir():
        assert plot.read_text() == (DOCS / "images" / plot.name).read_text(), plot.name


# Against an older version


def results_at(*rates, cpu=0.5):
    return [Result(count=rate, seconds=1.0, cpu=cpu * rate, peak=0) for rate in rates]


@pytest.mark.parametrize(
    ("cpu", "rate", "holds"),
    [(1.05, 0.9, True), (1.06, 2.0, False), (0.5, 0.89, False), (1.0, 1.0, True)],
)
def test_more_processor_time_or_less_throughput_than_allowed_does_not_hold(cpu, rate, holds):
    assert against.Comparison(cpu, rate).holds is holds
    old, new = results_at(100, 50, 200), results_at(90, 60, 100, cpu=0.55)
    comparison = against.Comparison.of(old, new)  # by the median of the rounds
    assert (round(comparison.cpu, 3), comparison.rate) == (1.1, 0.9)


OLD, NEW = against.Version("main~1", None), against.Version("this version", None)


def case_of(*speeds):
    """A case in which the new version has these speeds, each time that it is measured."""
    waiting = iter(speeds)

    def start(stack, place, version):
        speed = 100 if version is OLD else next(waiting)
        return lambda number: results_at(speed)[0]

    return start


@pytest.mark.parametrize(
    ("speeds", "line", "holds"),
    [
        ((100,), "processor time  1.00   throughput  1.00", True),
        ((50, 100), "throughput  1.00   (once more; before: processor time  1.00", True),
        ((50, 50), "throughput  0.50)   SLOWER", False),
    ],
)
def test_a_case_that_is_slower_is_measured_once_more(speeds, line, holds):
    text, result = against.compare_twice(case_of(*speeds), None, OLD, NEW, rounds=3)
    assert line in text
    assert result is holds


def test_a_case_that_the_older_version_cannot_run_is_named():
    def start(stack, place, version):
        if version is OLD:
            raise WorkerError("failed: the client ended with code 1")
        return lambda number: results_at(100)[0]

    text, holds = against.compare_twice(start, None, OLD, NEW, rounds=3)
    reason = "main~1 cannot run it; failed: the client ended with code 1"
    assert (text, holds) == (f"not measured: {reason}", True)
    with pytest.raises(WorkerError):
        against.compare_twice(start, None, NEW, OLD, rounds=3)
