"""How long the command line takes to start, against the library that it is made with.

`make bench`, or `python bench/startup.py [rounds]`.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

HOLDFAST = Path(sys.executable).parent / "holdfast"
MOST = 1.5


def seconds(*command: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - our own
    return time.perf_counter() - start


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    library, command = [], []
    for _ in range(rounds):
        library.append(seconds(sys.executable, "-c", "import typer"))
        command.append(seconds(str(HOLDFAST), "--version"))
    ratio = statistics.median(command) / statistics.median(library)
    print(f"Start-up, {rounds} rounds; import typer: {statistics.median(library) * 1000:,.0f} ms")
    print(f"  holdfast --version / import typer {ratio:>36.2f}   (at most {MOST})")
    return 0 if ratio <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
