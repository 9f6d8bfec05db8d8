"""Write the log of the library to standard error, for ``--verbose``."""

import logging

from holdfast.cli import output
from holdfast.events import logger


class StandardError(logging.Handler):
    """Writes each record as a line; with `as_json`, as an object."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def emit(self, record: logging.LogRecord) -> None:
        """Write the message of `record`. It holds no secret: see `holdfast.events`."""
        if self._as_json:
            output.write_error_json({"log": record.getMessage()})
        else:
            output.write_error(f"log: {record.getMessage()}")


def show(*, as_json: bool) -> None:
    """Write everything that is logged from now on."""
    logger.addHandler(StandardError(as_json=as_json))
    logger.setLevel(logging.DEBUG)
