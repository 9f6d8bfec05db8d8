"""Lists of CIDs in files: one CID on each line, or a CSV with a column `cid`."""

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from io import TextIOWrapper
from itertools import chain
from typing import BinaryIO, Final

from holdfast.cli.exit_codes import UsageError
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.disk.seen_cids import SpilledCIDs
from holdfast.errors import InvalidCIDError
from holdfast.records import Pin

DELIMITERS: Final = ",;\t"
LONGEST_LINE: Final = 1 << 20  # characters
LONGEST_QUOTE: Final = 100  # characters of a wrong line in an error
PLAIN: Final = ("cid", "name")  # the columns of a list without a header
SHAPE: Final = "write one CID on each line, or a CSV whose header has a column `cid`"


def read_list(
    file: BinaryIO, name: str, on_error: Callable[[str, InvalidCIDError], object]
) -> Iterator[str | Pin]:
    r"""Yield the CIDs in `file` as it is read, each once; a Pin for one with a name or key-values.

    `on_error` gets the text of a line that is wrong, and the error, which says its number. If the
    first line is wrong, the file is not a list: raise UsageError before anything is yielded.

    Example:
        >>> from io import BytesIO
        >>> file = BytesIO(b"# mine\n\nipfs://bafkqaaa\nbafkqaaa\nbaf\n")
        >>> list(read_list(file, "mine.txt", lambda text, error: print(text)))
        baf
        ['bafkqaaa']
    """
    columns: list[str] = []
    with closing(SpilledCIDs()) as seen:
        for number, row in _rows(file, name):
            if not columns and any(cell.lower() == "cid" for cell in row):
                columns = [cell.lower() if cell.lower() in PLAIN else cell for cell in row]
                continue
            try:
                item = _item(columns or PLAIN, row)
            except InvalidCIDError as error:
                text = ",".join(row)[:LONGEST_QUOTE]
                words = f"line {number}: {text!r} cannot be copied: {error.reason}"
                if not columns:
                    raise UsageError(f"{name}, {words}: {SHAPE}") from None
                on_error(text, InvalidCIDError(words, reason=error.reason))
                continue
            columns = columns or [*PLAIN]
            cid = CID.parse(item if isinstance(item, str) else item.cid)
            if cid not in seen:
                seen.add(cid)
                yield item


def _rows(file: BinaryIO, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each line that has any, with its number. Lines after ``#`` have none."""
    text = TextIOWrapper(file, "utf-8-sig", newline="")
    number = 0

    def lines() -> Iterator[str]:
        nonlocal number
        for line in iter(partial(text.readline, LONGEST_LINE), ""):
            number += 1
            if line.strip() and not line.lstrip().startswith("#"):
                yield line

    try:
        first = next(lines(), "")
        delimiter = next((mark for mark in DELIMITERS if mark in first), ",")
        for row in csv.reader(chain([first], lines()), delimiter=delimiter, strict=True):
            cells = [cell.strip() for cell in row]
            while cells and not cells[-1]:
                cells.pop()
            if cells:
                yield number, cells
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not text in UTF-8: save it as UTF-8") from None
    except csv.Error as error:
        raise UsageError(f"{name}, line {number}: {error}: {SHAPE}") from None
    finally:
        with suppress(ValueError):  # the file is closed
            text.detach()  # or it would close the file


def _item(columns: Sequence[str], cells: list[str]) -> str | Pin:
    """Return the CID in a line, or a Pin if the line has more; raise InvalidCIDError."""
    if len(cells) > len(columns):
        raise InvalidCIDError(reason="it has more cells than the header")
    values = dict(zip(columns, cells, strict=False))
    cid = Reference.parse_cid(values.pop("cid", ""))
    name = values.pop("name", "")
    keyvalues = {key: value for key, value in values.items() if key and value}
    return (
        Pin(id="", cid=cid, name=name, keyvalues=keyvalues, size=None) if name or keyvalues else cid
    )
