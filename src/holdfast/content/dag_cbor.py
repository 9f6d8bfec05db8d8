"""CBOR and dag-cbor: values of the IPLD data model as bytes, and the links in them.

::

    first byte   3 bits: the major type; 5 bits: the argument, or how many bytes follow that have it
    0 1   integers: n, and -1 - n           4   list: how many items, then the items
    2 3   bytes, text: how many bytes       5   map: how many entries, then each key and its value
    6     tag: 42, then the bytes 0x00      7   false, true, null and floats
          and a CID, is a link

dag-cbor has one form for each value: the shortest argument, floats of 64 bits, text keys in the
order of their lengths and then their bytes, each once, no other tag. Any other form is an error.
Plain CBOR, the codec ``cbor``, may use longer arguments, shorter floats and any order of keys; it
has no tags. Neither has infinite or undefined numbers, nor strings of unknown length here.

Nothing is recursive: a value may be nested `MAX_DEPTH` deep, whatever Python's own limit is.
"""

import math
import struct
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from holdfast.content.cid import CID
from holdfast.errors import MalformedError, SerializationError

MAX_DEPTH: Final = 1024  # Kubo's limit
MAX_CONTAINERS: Final = 1 << 20  # lists and maps of one value: some 100 MiB of memory
UNSIGNED, NEGATIVE, BYTES, TEXT, LIST, MAP, TAG, OTHER = range(8)
LINK_TAG: Final = 42
DOUBLE: Final = 27
_SIMPLE: Final = {20: False, 21: True, 22: None}
_FLOATS: Final = {25: ">e", 26: ">f", DOUBLE: ">d"}


def decode(block: bytes, *, strict: bool = True) -> Any:
    """Return the value in `block`, with links as `CID`; `strict` is dag-cbor.

    Raise `MalformedError` if it is not exactly one value.

    Example:
        >>> decode(bytes.fromhex("a2616101616282f6f5"))
        {'a': 1, 'b': [None, True]}
    """
    return _Decoder(block, strict=strict, builds=True).run()


def links(block: bytes) -> list[CID]:
    """Return the links in a block of dag-cbor, in their order, as `decode` would read them.

    It takes little memory whatever the block has, because it makes no values.
    """
    decoder = _Decoder(block, strict=True, builds=False)
    decoder.run()
    return decoder.links


def encode(value: Any) -> bytes:
    """Return the dag-cbor of `value`; raise `SerializationError` if it has none.

    Example:
        >>> encode({"b": [None, True], "a": 1}).hex()
        'a2616101616282f6f5'
    """
    out = bytearray()
    open_items: list[Iterator[Any]] = [iter((value,))]
    while open_items:
        for item in open_items[-1]:
            inner = _encode_item(item, out)
            if inner is not None:
                if len(open_items) > MAX_DEPTH:
                    raise SerializationError(f"the value is nested more than {MAX_DEPTH} deep")
                open_items.append(inner)
                break
        else:
            open_items.pop()
    return bytes(out)


class _Container:
    """A list or a map that is being read.

    Attributes:
        value: What it becomes; None where no values are made.
        left: How many items, or keys and values, are still to come.
        key: The last key, in a map.
    """

    __slots__ = ("is_map", "key", "left", "value")

    def __init__(self, left: int, value: Any, *, is_map: bool) -> None:
        self.left = left * 2 if is_map else left
        self.value = value
        self.is_map = is_map
        self.key: bytes | None = None


class _Decoder:
    """Reads one block. Without `builds`, it makes no values, and only collects the links."""

    def __init__(self, block: bytes, *, strict: bool, builds: bool) -> None:
        self._block = block
        self._strict = strict
        self._builds = builds
        self._position = 0
        self._containers = 0
        self.links: list[CID] = []

    def run(self) -> Any:
        """Return the value of the block, which must be the only one."""
        nesting: list[_Container] = []
        while True:
            if nesting and nesting[-1].is_map and nesting[-1].left % 2 == 0:
                self._read_key(nesting[-1])
            major, info, argument = self._read_head()
            if major in {LIST, MAP}:
                if len(nesting) == MAX_DEPTH:
                    raise MalformedError(f"CBOR: nested more than {MAX_DEPTH} deep")
                nesting.append(self._open(argument, is_map=major == MAP))
            else:
                self._put(nesting, value := self._read_scalar(major, info, argument))
            while nesting and not nesting[-1].left:
                self._put(nesting, value := nesting.pop().value)
            if not nesting:
                if self._position != len(self._block):
                    raise MalformedError("CBOR: bytes follow the value")
                return value

    def _open(self, count: int, *, is_map: bool) -> _Container:
        container = _Container(count, None, is_map=is_map)
        if container.left > len(self._block) - self._position:
            raise MalformedError("CBOR: the block ends before the value")
        if self._builds:
            self._containers += 1
            if self._containers > MAX_CONTAINERS:
                raise MalformedError(f"CBOR: more than {MAX_CONTAINERS} lists and maps")
            container.value = {} if is_map else []
        return container

    def _put(self, nesting: list[_Container], value: Any) -> None:
        """Put a value that was read into the innermost container, if there is one."""
        if not nesting:
            return
        container = nesting[-1]
        container.left -= 1
        if not self._builds:
            return
        if container.is_map:
            container.value[(container.key or b"").decode()] = value
        else:
            container.value.append(value)

    def _read_key(self, container: _Container) -> None:
        major, _, length = self._read_head()
        if major != TEXT:
            raise MalformedError("CBOR: a key of a map is not text")
        key = self._read_text(length).encode()
        before = container.key
        if before is not None and self._strict and (len(key), key) <= (len(before), before):
            raise MalformedError("CBOR: the keys of a map are not in order, or not unique")
        if not self._strict and self._builds and key.decode() in container.value:
            raise MalformedError("CBOR: a map has the same key twice")
        container.key = key
        container.left -= 1

    def _read_head(self) -> tuple[int, int, int]:
        """Return the major type, the low five bits and the argument of the next item."""
        if self._position == len(self._block):
            raise MalformedError("CBOR: the block ends before the value")
        first = self._block[self._position]
        self._position += 1
        major, info = first >> 5, first & 31
        if info < 24 or (major == OTHER and info not in _FLOATS):
            return major, info, info
        if info > DOUBLE:
            raise MalformedError("CBOR: a value of unknown length, or a reserved form")
        size = 1 << (info - 24)
        argument = int.from_bytes(self._take(size))
        if self._strict and major != OTHER and argument < (24 if size == 1 else 1 << (4 * size)):
            raise MalformedError("CBOR: a number is not in its shortest form")
        return major, info, argument

    def _read_scalar(self, major: int, info: int, argument: int) -> Any:
        match major:
            case 0:  # UNSIGNED
                return argument
            case 1:  # NEGATIVE
                return -1 - argument
            case 2:  # BYTES
                return self._take(argument)
            case 3:  # TEXT
                return self._read_text(argument)
            case 6:  # TAG
                return self._read_link(argument)
        return self._read_simple(info, argument)

    def _read_simple(self, info: int, argument: int) -> bool | float | None:
        if info in _SIMPLE:
            return _SIMPLE[info]
        if info not in _FLOATS or (self._strict and info != DOUBLE):
            raise MalformedError(f"CBOR: the form {info} of a simple value is not used here")
        number: float = struct.unpack(_FLOATS[info], argument.to_bytes(1 << (info - 24)))[0]
        if not math.isfinite(number):
            raise MalformedError("CBOR: a float is not a number, or infinite")
        return number

    def _read_text(self, length: int) -> str:
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            raise MalformedError("CBOR: a text is not UTF-8") from None

    def _read_link(self, tag: int) -> CID:
        if tag != LINK_TAG or not self._strict:
            raise MalformedError(f"CBOR: the tag {tag} is not used here")
        major, _, length = self._read_head()
        data = self._take(length) if major == BYTES else b""
        if data[:1] != b"\0":
            raise MalformedError("CBOR: a link is not a CID after a zero byte")
        try:
            cid = CID.from_bytes(data[1:])
        except ValueError as error:
            raise MalformedError(f"CBOR: the CID of a link is wrong: {error}") from None
        self.links.append(cid)
        return cid

    def _take(self, length: int) -> bytes:
        end = self._position + length
        if end > len(self._block):
            raise MalformedError("CBOR: the block ends before the value")
        data = self._block[self._position : end]
        self._position = end
        return data


def _encode_item(value: Any, out: bytearray) -> Iterator[Any] | None:
    """Append `value`, or the head of a container, whose items are returned."""
    match value:
        case list() | tuple():
            _encode_head(out, LIST, len(value))
            return iter(value)
        case dict():
            if not all(isinstance(key, str) for key in value):
                raise SerializationError("the keys of a map must be strings")
            _encode_head(out, MAP, len(value))
            entries = sorted(value.items(), key=lambda entry: (len(key := _utf8(entry[0])), key))
            return chain.from_iterable(entries)
    _encode_scalar(value, out)
    return None


def _encode_scalar(value: Any, out: bytearray) -> None:
    match value:
        case None | bool():
            out.append(OTHER << 5 | {False: 20, True: 21, None: 22}[value])
        case int():
            _encode_head(out, *((UNSIGNED, value) if value >= 0 else (NEGATIVE, -1 - value)))
        case float():
            if not math.isfinite(value):
                raise SerializationError("infinite and undefined numbers cannot be stored")
            out += bytes([OTHER << 5 | DOUBLE]) + struct.pack(">d", value)
        case str():
            text = _utf8(value)
            _encode_head(out, TEXT, len(text))
            out += text
        case bytes():
            _encode_head(out, BYTES, len(value))
            out += value
        case CID():
            data = b"\0" + bytes(value)
            out += bytes([TAG << 5 | 24, LINK_TAG])
            _encode_head(out, BYTES, len(data))
            out += data
        case _:
            raise SerializationError(f"a {type(value).__name__} has no form in dag-cbor")


def _encode_head(out: bytearray, major: int, argument: int) -> None:
    if argument >= 1 << 64:
        raise SerializationError("an integer has more than 64 bits")
    if argument < 24:
        out.append(major << 5 | argument)
        return
    power = max(0, (argument.bit_length() - 1).bit_length() - 3)
    out.append(major << 5 | 24 + power)
    out += argument.to_bytes(1 << power)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise SerializationError("a text has a lone surrogate, which is not UTF-8") from None
