"""What people type for pinned content: a CID, a part of it as `list` shows it, or ``name:NAME``."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from holdfast import registry
from holdfast.cli.exit_codes import UsageError
from holdfast.content.reference import Reference
from holdfast.errors import InvalidCIDError, NotFoundError, UnsupportedError
from holdfast.hints import advise

if TYPE_CHECKING:
    from holdfast import Client, Pin

MOST: Final = 10_000  # pins that a service is asked for
SHORTEST: Final = 12  # characters of a part of a CID
CANDIDATES: Final = 5  # in the notes of an error
NAME: Final = "name:"


@dataclass(slots=True)
class _Part:
    """A text that is not a whole CID, and the pins that it fits, by their CIDs.

    Attributes:
        text: What was typed.
        fits: Returns whether the text names a pin.
        error: The error if no pin fits.
        name: The name that was typed, or None if it was a part of a CID.
        path: The path that was typed after the CID, with its slash.
        pins: The pins that fit.
        near: Pins whose name contains the one that was typed.
    """

    text: str
    fits: "Callable[[Pin], bool]"
    error: Exception
    name: str | None = None
    path: str = ""
    pins: "dict[str, Pin]" = field(default_factory=dict)
    near: "dict[str, Pin]" = field(default_factory=dict)

    def chosen(self) -> "Pin":
        """Return the only pin that fits; raise an error with the candidates if there is none."""
        if len(self.pins) == 1:
            return next(iter(self.pins.values()))
        error = self.error
        if not self.pins and self.name is None:
            error.add_note("no CID of a pin begins with it, or is shortened to it")
        elif self.pins:
            error = UsageError(f"{self.text!r} stands for {len(self.pins):,} pins")
            advise(error, "copy the whole CID of one: `holdfast list --full` shows it")
        candidates = [*(self.pins or self.near).values()]
        for pin in candidates[:CANDIDATES]:
            error.add_note(f"{pin.cid}  {pin.name}")
        if len(candidates) > CANDIDATES:
            error.add_note(f"… and {len(candidates) - CANDIDATES:,} more")
        raise error


class References:
    """What each of `texts` names at the provider of `client`.

    What parses as a CID or a link is one, and nothing is asked. Otherwise the pins of the provider
    are searched for a CID that begins with the text, or has the beginning and the end that `list`
    prints, or for the name after ``name:``.
    """

    def __init__(self, client: "Client", texts: Iterable[str]) -> None:
        self._parsed = {text: _parse(text) for text in texts}
        parts = [part for part in self._parsed.values() if isinstance(part, _Part)]
        for name in dict.fromkeys(part.name for part in parts):
            _search(client, name, [part for part in parts if part.name == name])

    def __getitem__(self, text: str) -> "tuple[Reference, Pin | None]":
        """Return what `text` names, and its pin if it was looked for; raise an error if unclear."""
        parsed = self._parsed[text]
        if isinstance(parsed, Exception):
            raise parsed
        if isinstance(parsed, Reference):
            return parsed, None
        pin = parsed.chosen()
        return Reference.parse(f"{pin.cid}{parsed.path}"), pin

    def cids(self) -> list[str]:
        """Return what the texts name, each once; texts that are not CIDs as they are."""
        invalid = (isinstance(parsed, Exception) for parsed in self._parsed.values())
        pairs = zip(self._parsed, invalid, strict=True)
        return [*dict.fromkeys(text if wrong else str(self[text][0]) for text, wrong in pairs)]


def find(client: "Client", text: str) -> Reference:
    """Return what `text` names, by the rules of `References`."""
    return References(client, [text])[text][0]


def _parse(text: str) -> Reference | _Part | InvalidCIDError:
    """Return the reference in `text`, or how to look for it, or that it is neither."""
    try:
        return Reference.parse(text)
    except InvalidCIDError as error:
        invalid = error
    name = text.removeprefix(NAME)
    if name and name != text:
        missing = NotFoundError(f"no pin has the name {name!r}")
        advise(missing, "`holdfast list` shows the names")
        return _Part(text, lambda pin: pin.name == name, missing, name)
    part, slash, path = text.strip().partition("/")
    begin, _, end = part.replace("...", "…").partition("…")
    if not f"{begin}{end}".isalnum() or len(begin) + len(end) < SHORTEST:
        return invalid
    fits = lambda pin: pin.cid.startswith(begin) and pin.cid.endswith(end)  # noqa: E731
    return _Part(text, fits, invalid, path=slash + path)


def _search(client: "Client", name: str | None, parts: list[_Part]) -> None:
    """Look for `parts` in the pins, or in those with a `name`, of which a service has few."""
    is_local = registry.row_of(client.config.provider).on_this_machine
    try:
        pins = iter(client.iter_pins(name=name, limit=None if is_local else MOST + 1))
    except UnsupportedError:
        if name is None:
            raise parts[0].error from None
        raise
    for pin in islice(pins, None if is_local else MOST):
        for part in parts:
            if part.fits(pin):
                part.pins[pin.cid] = pin
            elif name is not None:
                part.near[pin.cid] = pin
    if next(pins, None) is not None:
        wrong = UsageError(f"there are more than {MOST:,} pins, and only so many are searched")
        raise advise(wrong, "give the whole CID: `holdfast list --full` shows it")
