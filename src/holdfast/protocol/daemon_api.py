"""What the APIs of Kubo and IPFS Cluster share: requests, errors, and pins as lines of JSON."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, ClassVar, Final, Generic, TypeVar

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError, ProviderError
from holdfast.protocol import json_text
from holdfast.protocol.http import RETRIED, Reply, Request, authorization
from holdfast.protocol.multipart import FileForm, FileSource, FormFile, OnSent
from holdfast.protocol.pin_api import Exchange, ListSize, other_version
from holdfast.protocol.status_errors import ErrorTable, failure, one_line
from holdfast.records import Usage

Row = TypeVar("Row")
MAX_LINE: Final = 1 << 20  # bytes
PART_NAME: Final = "file"  # a form needs one; Kubo takes the slashes of a name for folders
# Both answer 500 to whatever they cannot do, so only the others are worth another attempt.
RETRIED_HERE: Final = frozenset(RETRIED - {500})
ENDLESS: Final = (
    "the provider's list of pins does not end after {:,} rows: set a limit, or filter by name"
)
UNFRAMED: Final = (
    "the provider's list of pins may be cut off: its reply has neither a length nor chunks, which "
    "would show its end; check that no proxy changes replies"
)


class DaemonAPI(ABC, Generic[Row]):
    """The API at `base_url`. `token` is a bearer token, or ``user:password``.

    Attributes:
        errors: How the API reports failures.
        not_ours: The error message for a reply that cannot be that of the API.
        max_line: How long a line of a list may be, in bytes.
    """

    errors: ClassVar[ErrorTable]
    not_ours: ClassVar[str]
    max_line: ClassVar[int] = MAX_LINE

    def __init__(self, base_url: str, token: Secret | None) -> None:
        self.base_url = base_url
        self.token = token
        self._credential = authorization(token)

    def request(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> Request:
        """Return a request to `path` with the token."""
        fields: dict[str, str | Secret] = {**(headers or {}), **self._credential}
        return Request(method, self.base_url + path, fields, retried=RETRIED_HERE, **more)

    def upload(
        self, path: str, source: FileSource, on_sent: OnSent | None = None, *, whole: bool = False
    ) -> Request:
        """Return a request with a file; with `whole`, it is small and in memory: sent at once."""
        form = FileForm([FormFile(PART_NAME, "", source)], fields={})
        return self.request("POST", path, **form.sending(on_sent, whole=whole))

    def failure(self, words: str, reply: Reply) -> ProviderError:
        """Return the error `words` with the facts of `reply`."""
        return failure(words, reply, secret=self.token, table=self.errors)

    def wrong_api(self, reply: Reply) -> ProviderError:
        """Return the error for a reply that cannot be that of the API."""
        return self.failure(self.not_ours, reply)

    def cut_off(self, reply: Reply) -> ProviderError:
        """Return the error for a reply that is not complete."""
        return self.wrong_api(reply)

    def parse_cid(self, text: str, reply: Reply) -> CID:
        """Return the CID in a reply; raise ProviderError for another text."""
        try:
            return CID.parse(text)
        except InvalidCIDError:
            raise self.cut_off(reply) from None

    def find(self, cid: str) -> Exchange[Row | None]:
        """Return the pin of `cid`, or of the other version of it, which names the same content."""
        pin = yield from self.find_text(cid)
        other = other_version(cid) if pin is None else None
        return pin if other is None else (yield from self.find_text(other))

    def usage(self) -> Exchange[Usage]:
        """Return what the API says of bytes; here, nothing."""
        yield from ()
        return Usage()

    @abstractmethod
    def find_text(self, cid: str) -> Exchange[Row | None]:
        """Return the pin of the CID that is written as `cid`."""

    def rows_of(self, value: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a line of a list; here, one."""
        return [value]

    @abstractmethod
    def read_row(self, value: dict[str, Any]) -> Row:
        """Return the pin of a line; raise ProviderError if it has none."""


def read_objects(body: bytes) -> list[dict[str, Any]] | None:
    """Return the JSON objects of a body, one in each line; None if there is anything else."""
    values = [json_text.value_of(line) for line in body.splitlines() if line.strip()]
    return values if all(isinstance(value, dict) for value in values) else None


class PinLines(Generic[Row]):
    """Reads a list that comes in pieces, with one pin of `api` in each line.

    A list that is too long, or not complete, is a `ProviderError`.
    """

    def __init__(self, api: DaemonAPI[Row]) -> None:
        self._api = api
        self._size = ListSize(ENDLESS)
        self._rest = bytearray()

    def feed(self, piece: bytes) -> Iterator[Row]:
        """Yield the pins that `piece` completes."""
        self._count(rows=0, size=len(piece))
        first, *others = piece.split(b"\n")
        self._rest += first
        for part in others:
            yield from self._read_line(self._api.wrong_api(Reply(200, {})))
            self._rest += part
        if len(self._rest) > self._api.max_line:
            raise self._api.wrong_api(Reply(200, {}))

    def _read_line(self, error: ProviderError) -> Iterator[Row]:
        """Yield the pins of the line that is complete; raise `error` if it is not JSON."""
        values = read_objects(bytes(self._rest))
        self._rest.clear()
        if values is None:
            raise error
        for row in chain.from_iterable(map(self._api.rows_of, values)):
            self._count(rows=1, size=0)
            yield self._api.read_row(row)

    def _count(self, *, rows: int, size: int) -> None:
        if words := self._size.add(rows=rows, size=size):
            raise failure(words, Reply(200, {}), secret=self._api.token)

    def finish(self, reply: Reply) -> Iterator[Row]:
        """Yield the pins of a last line without a line break; `reply` has no body.

        Raise ProviderError unless the list is complete.

        A list that only the end of the connection ends may be cut off anywhere.
        """
        check_stream(reply, self._api.token)
        if not reply.is_framed:
            raise failure(UNFRAMED, reply, secret=self._api.token)
        yield from self._read_line(self._api.cut_off(reply))


def check_stream(reply: Reply, token: Secret | None) -> None:
    """Raise ProviderError if an error came after the body, which is then not complete."""
    if reply.stream_error:
        words = f"the provider stopped before the end of its reply: {one_line(reply.stream_error)}"
        raise failure(words, reply, secret=token)
