"""Count the files of the package that a `store` and a 3 MB `download` enter on the caller's thread.

A reader of the code has to open about as many files to follow one call.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import holdfast
from holdfast import AsyncClient
from holdfast.testing import running_node

PACKAGE = Path(holdfast.__file__).parent
SIZE = 3_000_000


async def files_entered(call: Callable[[], Awaitable[Any]]) -> list[str]:
    """Return the files of the package in which functions are called during `call`."""
    files: set[str] = set()

    def note(frame: FrameType, _event: str, _argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE) and frame.f_code.co_name != "<module>":
            files.add(path.relative_to(PACKAGE).as_posix())

    sys.setprofile(note)
    try:
        await call()
    finally:
        sys.setprofile(None)
    return sorted(files)


async def count() -> dict[str, list[str]]:
    """Return the files of each call, made by an `AsyncClient` of the provider `pinning`."""
    with running_node() as node:
        async with AsyncClient.init(node.config) as client:
            record = await client.upload(bytes(SIZE))
            await client.download(record.cid)  # the first one imports modules
            return {
                "store": await files_entered(lambda: client.store({"hello": "world"})),
                "download": await files_entered(lambda: client.download(record.cid)),
            }


def main() -> None:
    """Print the number of files of each call; with `--list`, their names too."""
    for name, files in asyncio.run(count()).items():
        print(f"{name}: {len(files)} files")
        if "--list" in sys.argv[1:]:
            print(*(f"  {file}" for file in files), sep="\n")


if __name__ == "__main__":
    main()
