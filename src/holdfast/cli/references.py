"""What people type for pinned content: a CID, a part of it as `list` shows it, or ``name:NAME``."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, Final
from urllib.parse import quote as percent_encoded

from holdfast import registry
from holdfast.cli.exit_codes import UsageError
from holdfast.content.reference import Reference
from holdfast.errors import ClientError, InvalidCIDError, NotFoundError, UnsupportedError
from holdfast.hints import advise
from holdfast.single_line import quoted

if TYPE_CHECKING:
    from holdfast import Client, Pin

MOST: Final = 10_000  # pins that a service is asked for
SHORTEST: Final = 12  # characters of a part of a CID
CANDIDATES: Final = 5  # in the notes of an error
BEGINNINGS: Final = ("b", "Q")  # of the CIDs in a list of pins
NAME: Final = "name:"
WHOLE: Final = "give the whole CID: `holdfast list --full` shows it"
ONE_OF_THEM: Final = "give the CID of one of them, or its first 12 characters"
STORE_IT: Final = "`holdfast upload {}` stores it, and writes its CID"  # for the name of a file


@dataclass(slots=True)
class _Part:
    """A text that is not a whole CID.

    Attributes:
        text: What was typed.
        error: The error if no pin fits.
        fits: Returns whether the text names a pin.
        name: What was typed after ``name:``, with a path or without; None for a part of a CID.
        path: The path that was typed after the CID, with its slash.
        pins: The pins that fit, by CID; for a `name` by CID and name, because a service may have
            several pins of one CID, and also those whose name only contains it.
    """

    text: str
    error: ClientError
    fits: "Callable[[Pin], bool]"
    name: str | None = None
    path: str = ""
    pins: "dict[tuple[str, str], Pin]" = field(default_factory=dict)

    def chosen(self) -> "tuple[Reference, Pin]":
        """Return the reference and the only pin that fits.

        Raise an error with the candidates otherwise.
        """
        fitting, path = [*filter(self.fits, self.pins.values())], self.path
        if self.name is not None:  # a name may have slashes: the longest that fits is meant
            longest = max((len(pin.name) for pin in fitting), default=0)
            fitting = [pin for pin in fitting if len(pin.name) == longest]
            path = self.name[longest:]
        if len(fitting) == 1:
            # The path is not of a link: "?", "#" and another "/ipfs/" belong to names in it.
            names = percent_encoded(path, safe="/%", errors="surrogateescape")
            if names[1:] and not names.strip("/"):  # "//" is not the folder itself
                raise InvalidCIDError(reason="its path has no names", value=self.text)
            return Reference.parse(f"/ipfs/{fitting[0].cid}{names}"), fitting[0]
        error: Exception = self.error
        if fitting:
            error = UsageError(f"{self.text!r} matches {len(fitting):,} pins")
            advise(error, WHOLE if self.name is None else ONE_OF_THEM)
        elif self.name is None:
            error.add_note("no CID of a pin begins with it, or is shortened to it")
        candidates = [f"{pin.cid}  {pin.name}" for pin in fitting or self.pins.values()]
        more = len(candidates) - CANDIDATES
        for note in [*candidates[:CANDIDATES], *([f"… and {more:,} more"] if more > 0 else [])]:
            error.add_note(note)
        raise error


class References:
    """What each of `texts` names at the provider of `client`.

    What parses as a CID or a link is one, and nothing is asked. Otherwise the pins of the provider
    are searched for a CID that begins with the text, or has the beginning and the end that `list`
    prints, or for the name after ``name:``, which a path may follow. `on_file` is the hint for the
    name of a local file.
    """

    def __init__(self, client: "Client", texts: Iterable[str], on_file: str = STORE_IT) -> None:
        self._client, self._on_file = client, on_file
        self._parsed = {text: _parse(text) for text in texts}
        parts = [part for part in self._parsed.values() if isinstance(part, _Part)]
        for name in dict.fromkeys(part.name for part in parts):
            _search(client, name, [part for part in parts if part.name == name])

    def __getitem__(self, text: str) -> "tuple[Reference, Pin | None]":
        """Return what `text` names, and its pin if it was looked for; raise an error if unclear."""
        parsed = self._parsed[text]
        try:
            if isinstance(parsed, Exception):
                raise parsed
            return (parsed, None) if isinstance(parsed, Reference) else parsed.chosen()
        except InvalidCIDError as error:
            # A service is never sent what may be a secret; nor does the hint repeat a secret.
            if is_here(self._client) and quoted(text) == f"'{text}'":
                # There is no such name, or several, or the store cannot be read.
                with suppress(ClientError, UsageError, OSError):
                    find(self._client, NAME + text)
                    advise(error, f"did you mean {quote(NAME + text)}?")
                if os.path.lexists(text):
                    advise(error, self._on_file.format(quote(text)))
            raise

    def cids(self) -> list[str]:
        """Return what the texts name, each once; texts that are not CIDs as they are."""
        parsed = self._parsed.items()
        named = (text if isinstance(one, Exception) else str(self[text][0]) for text, one in parsed)
        return [*dict.fromkeys(named)]


def find(client: "Client", text: str) -> Reference:
    """Return what `text` names, by the rules of `References`."""
    return References(client, [text])[text][0]


def is_here(client: "Client") -> bool:
    """Return whether the pins of `client` are those of a store on this machine."""
    return registry.row_of(client.config.provider).on_this_machine


def _parse(text: str) -> Reference | _Part | InvalidCIDError:
    """Return the reference in `text`, or how to look for it, or that it is neither."""
    name = text.removeprefix(NAME)
    if name and name != text:
        missing = NotFoundError(f"no pin has the name {name!r}")
        fits = lambda pin: pin.name != "" and f"{name}/".startswith(f"{pin.name}/")  # noqa: E731
        return _Part(text, advise(missing, "`holdfast list` shows the names"), fits, name)
    try:
        return Reference.parse(text)
    except InvalidCIDError as error:
        invalid = error
    part, slash, path = text.partition("/")
    begin, _, end = part.strip().replace("...", "…").partition("…")
    if (is_word := f"{begin}{end}".isalnum()) and len(begin) + len(end) < SHORTEST:
        return InvalidCIDError(reason="give at least 12 characters of the CID", value=text)
    if not is_word or not begin.startswith(BEGINNINGS):
        return invalid
    fits = lambda pin: pin.cid.startswith(begin) and pin.cid.endswith(end)  # noqa: E731
    return _Part(text, invalid, fits, path=slash + path)


def _search(client: "Client", name: str | None, parts: list[_Part]) -> None:
    """Look for `parts` in the pins, or in those with a `name`, of which a service has few."""
    most = None if is_here(client) else MOST
    try:
        pins = iter(client.iter_pins(name=name, limit=most and most + 1))
    except UnsupportedError:
        if name is None:
            raise parts[0].error from None
        words = "a name is looked up in the list of pins, and this provider has none"
        raise advise(UnsupportedError(words), "give the CID in place of the name") from None
    for pin in islice(pins, most):
        for part in parts:
            if name or part.fits(pin):
                part.pins[pin.cid, pin.name if name else ""] = pin
    if next(pins, None) is not None:
        wrong = UsageError(f"there are more than {MOST:,} pins, and only that many are searched")
        raise advise(wrong, WHOLE)
    segment, slash, _ = (name or "").partition("/")
    # It comes second, because very many names at a service may contain it.
    if slash and segment and not any(map(parts[0].fits, parts[0].pins.values())):
        _search(client, segment, parts)
