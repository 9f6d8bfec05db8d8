"""`python -m tests.wire_worker FOLDER COUNT COLOUR` makes random calls until it is killed."""

import asyncio
import logging
import sys
from pathlib import Path

from holdfast.protocol import pinata
from tests._async import wire_calls as async_calls
from tests._sync import wire_calls
from tests.tus import LARGEST, PIECE
from tests.wire import mark_file_keys


def main(name, count, colour):
    folder = Path(name)
    logging.basicConfig(filename=folder / "home/log", level=logging.DEBUG)
    mark_file_keys(setattr)
    pinata.LARGEST_FORM, pinata.PIECE_SIZE = LARGEST, PIECE
    if colour == "async":
        asyncio.run(async_calls.run(folder, int(count)))
    else:
        wire_calls.run(folder, int(count))


if __name__ == "__main__":
    main(*sys.argv[1:])
