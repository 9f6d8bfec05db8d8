"""Which blocks are asked for, and which losses that finds. All random numbers have a seed."""

import random

import pytest

from holdfast.content.cid import CID
from holdfast.content.sampling import PinPicker, Sample, SamplePicker, part_of

CIDS = [CID.of_raw(number.to_bytes(4)) for number in range(10_000)]


def pick(text, cids, *, seed=1, asked=(), size=1000):
    picker = SamplePicker(Sample.parse(text), random.Random(seed).random, asked)  # noqa: S311
    chosen = picker.add((cid, size) for cid in cids)
    return chosen + picker.rest()


@pytest.mark.parametrize(
    ("text", "sample"),
    [
        ("2%", Sample(share=0.02)),
        (" 0.5 % ", Sample(share=0.005)),
        ("100%", Sample(share=1.0)),
        ("3/30", Sample(part=3, parts=30)),
        ("1/1", Sample(part=1, parts=1)),
        ("500M", Sample(max_bytes=500 << 20)),
        ("1000", Sample(max_bytes=1000)),
    ],
)
def test_a_sample_is_written_as_in_other_tools(text, sample):
    assert Sample.parse(text) == sample


@pytest.mark.parametrize(
    "text", ["", "%", "0%", "101%", "-1%", "0/3", "4/3", "1/0", "x", "0", "²%"]
)
def test_a_text_that_is_no_sample_is_an_error_that_says_what_to_write(text):
    with pytest.raises(ValueError, match=r"is not a sample: write .* 2%, .* 3/30, or .* 500M"):
        Sample.parse(text)


@pytest.mark.parametrize(
    ("blocks", "asked"),
    [(0, 0), (1, 1), (3, 3), (4, 4), (200, 4), (201, 5), (3200, 64), (9999, 64)],
)
def test_a_share_is_at_least_4_and_at_most_64_blocks_and_all_if_there_are_fewer(blocks, asked):
    chosen = pick("2%", CIDS[:blocks])
    assert len(chosen) == asked == len(set(chosen))
    assert set(chosen) <= set(CIDS[:blocks])


def test_another_seed_chooses_other_blocks_and_every_block_has_the_same_chance():
    assert pick("2%", CIDS[:3200], seed=1) != pick("2%", CIDS[:3200], seed=2)
    firsts = sum(CIDS[0] in pick("2%", CIDS[:10], seed=seed) for seed in range(2000))
    lasts = sum(CIDS[9] in pick("2%", CIDS[:10], seed=seed) for seed in range(2000))
    assert 720 < firsts < 880  # 4 of 10 blocks: 800, with a standard deviation of 22
    assert 720 < lasts < 880


def test_no_block_is_asked_twice_while_unasked_ones_remain():
    asked = set()
    for _ in range(5):
        chosen = pick("2%", CIDS[:20], asked=asked)
        assert not asked & set(chosen)
        asked |= set(chosen)
    assert asked == set(CIDS[:20])
    assert len(pick("2%", CIDS[:20], asked=asked)) == 4


def test_as_many_blocks_are_asked_for_as_fit_into_a_size():
    assert len(pick("64K", CIDS, size=1000)) == 65
    assert pick("999", CIDS, size=1000) == []
    assert len(pick("1M", CIDS, size=0)) == 4  # of unknown size: 256 KiB are counted for each
    assert len(pick("100K", CIDS, size=0)) == 1  # or all that there is, for a small sample
    assert set(pick("1T", CIDS[:50])) == set(CIDS[:50])


def test_all_parts_together_are_all_blocks_each_once():
    parts = [pick(f"{part}/7", CIDS) for part in range(1, 8)]
    assert sorted(str(cid) for part in parts for cid in part) == sorted(map(str, CIDS))
    assert all(1300 < len(part) < 1560 for part in parts)  # 1,429 each


@pytest.mark.slow
def test_300_samples_find_a_member_that_lacks_1_percent_of_10_000_blocks():
    """Of 75 DAGs of 133 blocks, 4 blocks each are asked for: 300, as in one look at a member."""
    discoveries = 0
    for run in range(200):
        numbers = random.Random(run)  # noqa: S311
        lost = set(numbers.sample(CIDS, 100))
        picked = []
        for start in range(0, 9975, 133):
            picked += pick("2%", CIDS[start : start + 133], seed=numbers.random())
        assert len(picked) == 300
        discoveries += not lost.isdisjoint(picked)
    assert discoveries >= 180  # 190 are expected


def test_t_runs_of_n_of_t_find_every_loss():
    numbers = random.Random(5)  # noqa: S311
    for lost in numbers.sample(CIDS, 20):
        runs = [part for part in range(1, 31) if part == part_of(lost, 30)]
        assert len(runs) == 1
        assert lost in pick(f"{runs[0]}/30", CIDS)


def pick_of_pins(text, sizes, seed):
    """Return the pins that are asked about, by their numbers, with the sample of each."""
    picker = PinPicker(Sample.parse(text), len(sizes), sum(sizes), random.Random(seed).random)  # noqa: S311
    samples = {number: picker.pick(size) for number, size in enumerate(sizes)}
    return {number: sample for number, sample in samples.items() if sample is not None}


def test_a_run_over_300_of_10_000_pins_finds_a_member_that_lacks_1_percent_of_them():
    discoveries, counts = 0, []
    for run in range(200):
        lost = set(random.Random(-run - 1).sample(range(10_000), 100))  # noqa: S311
        picked = pick_of_pins("2%", [1000] * 10_000, run)
        assert set(picked.values()) == {Sample(share=0.02)}
        counts.append(len(picked))
        discoveries += not lost.isdisjoint(picked)
    assert discoveries >= 180  # 190 are expected
    assert 290 < sum(counts) / 200 < 310
    assert max(counts) < 400


@pytest.mark.parametrize(
    ("pins", "fewest", "most"), [(0, 0, 0), (200, 200, 200), (100_000, 1800, 2200)]
)
def test_of_few_pins_all_are_asked_about_and_of_many_the_share(pins, fewest, most):
    assert fewest <= len(pick_of_pins("2%", [1000] * pins, seed=3)) <= most


def test_a_run_over_a_part_asks_about_every_pin_so_all_parts_find_every_loss():
    runs = [pick_of_pins(f"{part}/7", [1000] * len(CIDS), part) for part in range(1, 8)]
    asked = {
        cid
        for samples in runs
        for number, sample in samples.items()
        if part_of(cid := CIDS[number], sample.parts) == sample.part
    }
    assert asked == set(CIDS)


def asked_bytes(samples, dags):
    """Return how many bytes a run asks for, whose pins have blocks of these sizes."""
    total = 0
    for number, sample in samples.items():
        picker = SamplePicker(sample, random.Random(number).random)  # noqa: S311
        sizes = dict(zip(CIDS, dags[number], strict=False))
        picker.add(sizes.items())
        total += sum(sizes[cid] for cid in picker.rest())
    return total


def test_the_bytes_of_a_whole_run_stay_within_the_size():
    numbers = random.Random(7)  # noqa: S311
    dags = [[numbers.randint(1, 300_000)] * numbers.choice([1, 1, 5, 50]) for _ in range(2000)]
    sizes = [sum(blocks) for blocks in dags]
    shares = []
    for seed in range(20):
        samples = pick_of_pins("500M", sizes, seed)
        shares.append(asked_bytes(samples, dags) / (500 << 20))
    assert max(shares) <= 1
    assert sum(shares) / 20 > 0.9  # and nearly all of it is used
    assert asked_bytes(pick_of_pins("1T", sizes, 1), dags) == sum(sizes)


def test_pins_of_unknown_size_do_not_use_more_than_the_size_either():
    dags = [[1 << 18] * 20] * 100
    samples = pick_of_pins("16M", [0] * 100, 1)
    assert len(samples) == 8  # 2 MiB are counted for each, and no more is asked of it
    assert 8 << 20 < asked_bytes(samples, dags) <= 16 << 20


def test_the_only_block_of_a_pin_is_asked_for_though_it_is_larger_than_the_file():
    picker = PinPicker(Sample.parse("1M"), 1, 262_144, lambda: 0.0)
    blocks = SamplePicker(picker.pick(262_144), lambda: 0.5)
    blocks.add([(CIDS[0], 262_158)])
    assert blocks.rest() == [CIDS[0]]
