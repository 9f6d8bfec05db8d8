"""The goals of all ratios, in one table."""

from dataclasses import dataclass
from itertools import pairwise

OURS = "holdfast"
BY_HAND = "workers by hand"
IN_PIECES = "in pieces (tus)"
ONE_REQUEST = "in one request"
BLOCKING = "holdfast, blocking"
ASYNC = "holdfast, async"
ALL_UP = "holdfast, three places"
ONE_DOWN = "holdfast, one place down"
ALONE = "place"  # with a number
PLAIN = "holdfast, not encrypted"
ENCRYPTED = "holdfast, post-quantum"
ENCRYPTED_CLASSIC = "holdfast, classic"
SAFE_KUBO = "Kubo, synced and verified"  # with the guarantees of our node


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio of our figure to others, and the goal for it: a lower or an upper limit.

    Attributes:
        title: The name of the comparison in the table.
        work: The work; its figure of candidate `ours` is divided by the least of `against`.
        against: Pairs of a work and a candidate.
        goal: The ratio wanted.
        at_most: For times: less is better.
        ours: The candidate that is ours.
    """

    title: str
    work: str
    against: tuple[tuple[str, str], ...]
    goal: float
    at_most: bool = False
    ours: str = OURS


def _same(title: str, work: str, candidate: str, goal: float) -> Goal:
    return Goal(f"{title} / {candidate}", work, ((work, candidate),), goal)


def _verified(work: str, colour: str, goal: float) -> Goal:
    """Compare a transfer with the slower of the same without verification and SHA-256."""
    ours = f"holdfast, {colour}"
    title = f"verified {work}, {colour} / the slower of unverified and SHA-256"
    against = ((work, f"{ours}, unverified"), ("sha256", "SHA-256"))
    return Goal(title, work, against, goal, ours=ours)


AT_ONCE = (1, 16, 64)
# The works of bench/growth.py that may not take longer in a larger store; two are for a block.
# A page from the middle has none: it is asked for by its offset, and the index before it is read.
GROWTH = ("store", "list, first 100", "check", "gc")
PIECES_LIMIT = 25.0  # microseconds of CPU for each leaf
PAGE_LIMIT = 1000.0  # milliseconds; how long the node's web page may take to show a result
HEALTH_REQUESTS = 2500  # to each member, for 100,000 pins at 2 %
HEALTH_MEMORY = 64  # MiB that the process of the run may grow
SIZES = (1_000, 100_000, 1_000_000)


def growth_work(work: str) -> str:
    """Return the name of a work of bench/growth.py among all works."""
    return f"growth: {work}"


def _growth(work: str, size: int, smaller: int) -> Goal:
    title = f"{work}, {size:,} pins / {smaller:,} pins"
    against = ((growth_work(work), f"{smaller:,} pins"),)
    return Goal(title, growth_work(work), against, 1.5, at_most=True, ours=f"{size:,} pins")


GOALS = (
    _same("store, blocking", "store-blocking", "urllib3", 0.85),
    _same("retrieve, blocking", "retrieve-blocking", "urllib3", 0.8),
    *(_same(f"store, async, {n} at once", f"store-async-{n}", "aiohttp", 0.8) for n in AT_ONCE),
    *(
        _same(f"retrieve, async, {n} at once", f"retrieve-async-{n}", "aiohttp", 0.7)
        for n in AT_ONCE
    ),
    _same("store, async, 64 at once", "store-async-64", "pinata-web3", 2.5),
    _same("store, async, 64 at once", "store-async-64", "pinata", 2.5),
    _same("retrieve, async, 64 at once", "retrieve-async-64", "pinata-web3", 1.2),
    _verified("upload", "blocking", 0.9),
    _verified("download", "blocking", 0.9),
    _verified("upload", "async", 0.9),
    _verified("download", "async", 0.85),
    _same("upload_many, blocking, 64 at once", "upload_many-blocking", BY_HAND, 0.9),
    _same("upload_many, async, 64 at once", "upload_many-async-64", BY_HAND, 0.9),
    Goal(
        "CID of a file, 1 thread / SHA-256",
        "cid",
        (("cid", "SHA-256, 1 thread"),),
        0.95,
        ours="holdfast, 1 thread",
    ),
    Goal(
        "CID of a file, 2 threads / SHA-256 on 2 threads",
        "cid",
        (("cid", "SHA-256, 2 threads"),),
        0.75,
        ours="holdfast, 2 threads",
    ),
    *(
        _same(f"the node: {title}", work, kubo, goal)
        for title, work, goal in (
            ("stores, 16 at once", "node-store", 1.2),
            ("upload of 512 MiB", "node-upload", 1.0),
            ("download of 512 MiB", "node-download", 1.2),
        )
        for kubo in ("Kubo", SAFE_KUBO)
    ),
    Goal(
        "upload of 2 GiB to the node in pieces / in one request",
        "very-large-upload",
        (("very-large-upload", ONE_REQUEST),),
        0.8,
        ours=IN_PIECES,
    ),
    _same("store to Kubo, 16 at once", "kubo-store", "kubo-rpc-client", 1.0),
    _same("store to Kubo, 16 at once", "kubo-store", "Kubo's command", 5.0),
    _same("download from Kubo", "kubo-download", "ipfs get", 0.5),
    _same("copy from Kubo to Kubo", "kubo-copy", "ipfs dag export, import", 0.8),
    Goal(
        "entries of a directory of 6,000 at Kubo, blocking / async",
        "kubo-entries",
        (("kubo-entries", ASYNC),),
        2.0,
        at_most=True,
        ours=BLOCKING,
    ),
    Goal(
        "from holdfast import Client / import urllib3",
        "import",
        (("import", "urllib3"),),
        1.3,
        at_most=True,
    ),
    Goal(
        "holdfast --version / import typer",
        "command",
        (("command", "import typer"),),
        1.2,
        at_most=True,
        ours="holdfast --version",
    ),
    Goal(
        "a leaf of one byte, read in the slowest way / 25 us of CPU",
        "pieces",
        (("pieces", "limit"),),
        1.0,
        at_most=True,
        ours="slowest way",
    ),
    Goal(
        "the page with 100,000 pins: first rows, sorted or searched, the slowest / 1 s",
        "page",
        (("page", "limit"),),
        1.0,
        at_most=True,
        ours="the slowest with many pins",
    ),
    Goal(
        "store to two of three places, 20 ms away / to the slowest of them alone",
        "copies-store",
        tuple(("copies-store", f"{ALONE} {number}") for number in (1, 2, 3)),
        0.45,
        ours=ALL_UP,
    ),
    Goal(
        "the same while one of them is down / while all are up",
        "copies-store",
        (("copies-store", ALL_UP),),
        0.7,
        ours=ONE_DOWN,
    ),
    Goal(
        "a health run over 100,000 pins at 2 %: requests to a member / 2,500",
        "health-requests",
        (("health-requests", "limit"),),
        1.0,
        at_most=True,
        ours="the most at one member",
    ),
    Goal(
        "the same: memory of the client / 64 MiB",
        "health-memory",
        (("health-memory", "limit"),),
        1.0,
        at_most=True,
        ours="growth",
    ),
    *(
        Goal(
            f"encrypted {work} / the same without encryption",
            f"encrypted-{work}",
            ((f"encrypted-{work}", PLAIN),),
            0.75,
            ours=ENCRYPTED,
        )
        for work in ("upload", "download")
    ),
    *(
        Goal(
            f"encrypted store, 16 at once, {kind} / aiohttp without encryption",
            "encrypted-store",
            (("encrypted-store", "aiohttp"),),
            goal,
            ours=ours,
        )
        for kind, ours, goal in (
            ("classic", ENCRYPTED_CLASSIC, 0.5),
            ("post-quantum", ENCRYPTED, 0.3),
        )
    ),
    *(_growth(work, size, smaller) for work in GROWTH for smaller, size in pairwise(SIZES)),
)
