"""Protobuf's wire format: the bytes of a message in, an object with its fields as attributes out.

Reading a model takes a few tables and a loop, so a session needs no protobuf library, whose import takes as long as
reading a small model. Large fields of bytes are not copied: what is read of a tensor is its place. The time and memory
that reading takes are bounded by the size of the input.

This module knows no ONNX: `onnx_messages` has the tables. Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from mmap import mmap
from typing import Any, ClassVar

import numpy as np

__all__ = [
    "ARRAY",
    "BYTES",
    "BYTES_LIST",
    "ENUM",
    "FLOAT",
    "INT",
    "INT32",
    "MESSAGE",
    "MESSAGES",
    "NUMBERS",
    "RAW",
    "TEXT",
    "TEXTS",
    "Malformed",
    "Message",
    "Piece",
    "TooDeep",
    "define",
    "read",
]

TEXT, TEXTS, MESSAGE, MESSAGES, BYTES, BYTES_LIST, RAW = range(7)
"""Kinds of fields that have a length. `RAW` are bytes that may be large, which are then a `Piece`."""

INT, INT32, ENUM, FLOAT, NUMBERS, ARRAY = range(7, 13)
"""Kinds of numbers. `NUMBERS` become a list; `ARRAY` a list, or an array where the message has them in one piece."""

PIECE = 4096
"""Bytes from which a `RAW` field is a `Piece`: smaller ones are copied."""

DEEPEST = 100
"""Messages inside messages that are read; protobuf's own limit."""

_RUN = 64
"""Numbers in a row, each with its tag, from which on many are read at once."""

_FEW = 32
"""Bytes of numbers without tags up to which they are read one by one: arrays take longer to make."""

_BLOCK = 1 << 16
"""Bytes of numbers that are read at once: decoding takes some fifty times as much memory."""

_CHECKED = 1 << 18
"""Bytes of a message after which the caller is asked whether to go on."""

_VARINT, _FIXED64, _LENGTH, _GROUP, _GROUP_END, _FIXED32 = range(6)
_64_BITS = (1 << 64) - 1
_LONGEST = 10
"""Bytes of a number of 64 bits at most."""
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")

_TAGS = 256
"""Tags that a field which is read may have."""

_BROKEN = "a number breaks off"
_TOO_LONG = "a number has more than 64 bits"
_BEYOND = "a field extends beyond the end of its message"

_Entry = tuple[int, str, Any, tuple[str, ...]]
"""Kind and name of a field, what it is made of, and the fields of which only one can be there."""


class Malformed(ValueError):
    """The bytes do not form a message."""


class TooDeep(Malformed):
    """Messages are nested deeper than protobuf allows."""


class Piece:
    """A large field of bytes, left where it is.

    Attributes:
        content: The bytes.
        start, stop: Where they lie in the bytes that were read.
    """

    __slots__ = ("content", "start", "stop")

    def __init__(self, content: memoryview, start: int, stop: int) -> None:
        self.content, self.start, self.stop = content, start, stop

    def __len__(self) -> int:
        return self.stop - self.start


class Message:
    """One message. Fields are attributes; those that were not written have their defaults, which are not to be changed.

    The methods are those of protobuf's messages, and have their names, so that both kinds can be read alike.
    """

    entries: ClassVar[list[_Entry | None]] = [None] * _TAGS
    by_name: ClassVar[Mapping[str, _Named]] = {}
    alternatives: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def HasField(self, name: str) -> bool:  # noqa: N802 - protobuf's name
        """Return whether a field was written."""
        return name in self.__dict__

    def WhichOneof(self, group: str) -> str | None:  # noqa: N802 - protobuf's name
        """The name of the field that was written of those of which only one can be; None if there is none."""
        return next((name for name in self.alternatives[group] if name in self.__dict__), None)

    def ListFields(self) -> list[tuple[_Named, Any]]:  # noqa: N802 - protobuf's name
        """The fields that were written, with their values."""
        return [(self.by_name[name], value) for name, value in self.__dict__.items()]


class _Named:
    """The name of a field, in the form that protobuf's descriptors have."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def define(
    message: type[Message],
    fields: Iterable[tuple[int, str, int] | tuple[int, str, int, Any]],
    **alternatives: tuple[str, ...],
) -> None:
    """Give a kind of message its fields.

    Args:
        message: The kind.
        fields: Of each, its number, name and kind; then what it is made of: the kind of message, the number of
            constants of an enumeration, or the dtype of numbers.
        alternatives: Names of fields of which only one can be there, by the name of their group.
    """
    entries: list[_Entry | None] = [None] * _TAGS
    names: dict[str, _Named] = {}
    for number, name, kind, *more in fields:
        of = more[0] if more else None
        rivals = next((group for group in alternatives.values() if name in group), ())
        for wire in _wires(kind, of):
            entries[number << 3 | wire] = (kind, name, of, tuple(one for one in rivals if one != name))
        names[name] = _Named(name)
        setattr(message, name, more[0]() if kind == MESSAGE else _DEFAULTS[kind])
    message.entries, message.by_name, message.alternatives = entries, names, alternatives


_DEFAULTS: Mapping[int, Any] = {TEXT: "", BYTES: b"", RAW: b"", INT: 0, INT32: 0, ENUM: 0, FLOAT: 0.0} | dict.fromkeys(
    (TEXTS, BYTES_LIST, MESSAGES, NUMBERS, ARRAY), ()
)


def _wires(kind: int, of: Any) -> tuple[int, ...]:
    """The wire types that a field may have: lists of numbers may be packed or not, whatever they are declared as."""
    if kind <= RAW:
        return (_LENGTH,)
    if kind in (INT, INT32, ENUM):
        return (_VARINT,)
    if kind == FLOAT:
        return (_FIXED32,)
    if of.kind == "f":
        return (_FIXED32 if of.itemsize == 4 else _FIXED64, _LENGTH)
    return (_VARINT, _LENGTH)


def read(kind: type[Message], content: memoryview, check: Callable[[], None] | None = None) -> Any:
    """Read a message.

    Args:
        kind: Its kind.
        content: Its bytes, contiguous, of one byte each. They must not change while pieces of them are used.
        check: Called now and then. What it raises ends the reading.

    Raises:
        Malformed: The bytes are not a message, or break off.
    """
    message = kind()
    try:
        _Reader(content, check).fill(message.__dict__, kind.entries, 0, len(content), 0)
    except (IndexError, struct.error) as error:
        raise Malformed(_BEYOND) from error
    return message


class _Reader:
    """Reads the messages inside some bytes."""

    def __init__(self, whole: memoryview, check: Callable[[], None] | None) -> None:
        self._whole = whole
        self._data = _sliced_at_once(whole)
        self._check = check or _go_on
        self._texts: dict[bytes, str | bytes] = {}  # names stand at each node that reads a value

    def fill(self, values: dict[str, Any], fields: list[_Entry | None], position: int, stop: int, depth: int) -> None:
        """Read the fields of one message, which calls itself for those inside: protobuf, too, stops at 100 levels."""
        data, whole, texts = self._data, self._whole, self._texts
        checked = position + _CHECKED
        while position < stop:
            if position >= checked:
                checked = position + _CHECKED
                self._check()
            tag = data[position]
            position += 1
            if tag > 0x7F:
                tag, position = _varint(data, position - 1)
            entry = fields[tag] if tag < _TAGS else None
            if tag & 7 != _LENGTH:
                position = (
                    _skipped(data, position, tag)
                    if entry is None
                    else _number(values, entry, data, position, stop, tag)
                )
                continue
            size = data[position]
            position += 1
            if size > 0x7F:
                size, position = _varint(data, position - 1)
            end = position + size
            if end > stop:
                raise Malformed(_BEYOND)
            if entry is None:
                _check_number(tag)
                position = end
                continue
            how, name, of, rivals = entry
            if rivals:
                _drop(values, rivals)
            if how <= TEXTS:
                raw = data[position:end]
                if data is whole:
                    raw = bytes(raw)
                found = texts.get(raw)
                if found is None:
                    found = texts[raw] = _text(raw)
                if how == TEXT:
                    values[name] = found
                elif name in values:
                    values[name].append(found)
                else:
                    values[name] = [found]
            elif how <= MESSAGES:
                self.fill(_inner(values, name, of, how, depth).__dict__, of.entries, position, end, depth + 1)
            else:
                _add_bytes(values, entry, data, whole, position, end)
            position = end
        if position > stop:
            raise Malformed(_BEYOND)


def _go_on() -> None: ...


def _drop(values: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        values.pop(name, None)


def _inner(values: dict[str, Any], name: str, kind: type[Message], how: int, depth: int) -> Message:
    """The message inside another one that is read next."""
    if depth >= DEEPEST:
        raise TooDeep(f"messages are nested deeper than {DEEPEST} levels")
    if name not in values:
        inner = kind()
        values[name] = [inner] if how == MESSAGES else inner
    elif how == MESSAGES:
        inner = kind()
        values[name].append(inner)
    else:
        inner = values[name]  # what is there a second time adds to the first
    return inner


def _add_bytes(values: dict[str, Any], entry: _Entry, data: Any, whole: memoryview, position: int, end: int) -> None:
    """Read a field of bytes, or numbers without tags."""
    how, name, of, _ = entry
    if how >= NUMBERS:
        _add_packed(values, name, data[position:end], of, how)
    elif how == RAW and end - position >= PIECE:
        values[name] = Piece(whole[position:end], position, end)
    elif how == BYTES_LIST:
        values.setdefault(name, []).append(bytes(data[position:end]))
    else:
        values[name] = bytes(data[position:end])


def _sliced_at_once(content: memoryview) -> Any:
    """The owner of the bytes where it has no others and slices of it are bytes, which is quicker; else the view."""
    owner: Any = content.obj
    return owner if isinstance(owner, bytes | mmap) and len(owner) == len(content) else content


def _number(values: dict[str, Any], entry: _Entry, data: Any, position: int, stop: int, tag: int) -> int:
    """Read a number, or all numbers of a list that follow each other. Returns where they end."""
    how, name, of, rivals = entry
    _drop(values, rivals)
    if how == FLOAT:
        (values[name],) = _FLOAT.unpack_from(data, position)
        return position + 4
    if how >= NUMBERS:
        return _add_numbers(values, name, data, position, stop, tag, of)
    value = data[position]
    position += 1
    if value > 0x7F:
        value, position = _varint(data, position - 1)
        value = _signed(value, 64 if how == INT else 32)
    if how != ENUM or 0 <= value < of:  # protobuf ignores constants that an enumeration lacks
        values[name] = value
    return position


def _text(raw: bytes) -> str | bytes:
    """The text of bytes, or the bytes where they are not UTF-8, as protobuf has it."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _varint(data: Any, position: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _64_BITS, position
        shift += 7
        if shift >= 7 * _LONGEST:
            raise Malformed(_TOO_LONG)


def _signed(value: int, bits: int) -> int:
    """The lowest bits of a number, as two's complement has them."""
    value &= (1 << bits) - 1
    return value - (value >> (bits - 1) << bits)


def _check_number(tag: int) -> None:
    if not 0 < tag >> 3 < 1 << 29:
        raise Malformed(f"a field has the number {tag >> 3}")


def _skipped(data: Any, position: int, tag: int) -> int:
    """The end of a field that is not read."""
    groups: list[int] = []
    while True:
        wire, number = tag & 7, tag >> 3
        _check_number(tag)
        if wire == _VARINT:
            _, position = _varint(data, position)
        elif wire == _LENGTH:
            size, position = _varint(data, position)
            position += size
        elif wire in (_FIXED32, _FIXED64):
            position += 4 if wire == _FIXED32 else 8
        elif wire == _GROUP:
            groups.append(number)
            if len(groups) > DEEPEST:
                raise TooDeep(f"messages are nested deeper than {DEEPEST} levels")
        elif wire != _GROUP_END or not groups or groups.pop() != number:
            raise Malformed(f"a field has the wire type {wire}" if wire > _FIXED32 else "a group ends that never began")
        if not groups:
            return position
        tag, position = _varint(data, position)


def _add_packed(values: dict[str, Any], name: str, chunk: Any, dtype: np.dtype[Any], how: int) -> None:
    """Add numbers without tags to a list of numbers."""
    if not len(chunk):  # as if the field were not there
        return
    numbers: Any
    if dtype.kind == "f":
        if len(chunk) % dtype.itemsize:
            raise Malformed(f"{len(chunk)} bytes are no sequence of numbers of {dtype.itemsize} bytes")
        numbers = np.frombuffer(chunk, dtype.newbyteorder("<"))
    elif len(chunk) <= _FEW:
        numbers = _few(chunk, dtype)
    else:
        numbers = _many(np.frombuffer(chunk, np.uint8), dtype)
    present = values.get(name)
    if present is None:
        values[name] = numbers if how == ARRAY else _list_of(numbers)
    else:  # a list, since joining arrays each time would take time squared where there are many small parts
        present = values[name] = _list_of(present)
        present.extend(_list_of(numbers))


def _add_numbers(
    values: dict[str, Any], name: str, data: Any, position: int, stop: int, tag: int, dtype: np.dtype[Any]
) -> int:
    """Add numbers to a list, each of which has a tag; the first tag has been read. Returns where they end."""
    present = values.get(name)
    if type(present) is not list:
        present = values[name] = [] if present is None else _list_of(present)
    width = dtype.itemsize
    fixed = None if dtype.kind != "f" else _FLOAT if width == 4 else _DOUBLE
    head = tag if tag <= 0x7F else -1  # longer ones are compared where there are many numbers
    while True:
        if fixed is not None:
            (value,) = fixed.unpack_from(data, position)
            position += width
        else:
            value = data[position]
            position += 1
            if value > 0x7F:
                value, position = _long(data, position - 1, dtype)
        present.append(value)
        if len(present) >= _RUN and not len(present) & (len(present) - 1):  # so that vain attempts are few
            position = _add_run(present, data, position, stop, tag, dtype)
        if position >= stop or data[position] != head:
            return position
        position += 1


def _list_of(numbers: Any) -> list[Any]:
    return numbers if isinstance(numbers, list) else numbers.tolist()


def _long(data: Any, position: int, dtype: np.dtype[Any]) -> tuple[int, int]:
    """A number of more than 7 bits as what was written, and where it ends."""
    value, position = _varint(data, position)
    return _signed(value, 8 * dtype.itemsize) if dtype.kind == "i" else value, position


def _few(chunk: Any, dtype: np.dtype[Any]) -> list[int]:
    """All numbers in a few bytes."""
    if chunk[-1] > 0x7F:
        raise Malformed(_BROKEN)
    found: list[int] = []
    position = 0
    while position < len(chunk):
        value = chunk[position]
        position += 1
        if value > 0x7F:
            value, position = _long(chunk, position - 1, dtype)
        found.append(value)
    return found


def _many(coded: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """All numbers in any number of bytes, a block at a time."""
    if len(coded) <= _BLOCK:
        return _in_width(_varints(coded), dtype)
    numbers = np.empty(np.count_nonzero(coded < 0x80), dtype)
    position = filled = 0
    while position < len(coded):
        block = coded[position : position + _BLOCK]
        if position + len(block) < len(coded):  # the last number of a block goes on in the next one
            ends = np.flatnonzero(block[-_LONGEST:] < 0x80)
            if not len(ends):
                raise Malformed(_TOO_LONG)
            block = block[: len(block) - _LONGEST + int(ends[-1]) + 1]
        found = _in_width(_varints(block), dtype)
        numbers[filled : filled + len(found)] = found
        position, filled = position + len(block), filled + len(found)
    return numbers


def _add_run(present: list[Any], data: Any, position: int, stop: int, tag: int, dtype: np.dtype[Any]) -> int:
    """Add all numbers that follow each other with the same tag, many at a time."""
    while True:
        window = np.frombuffer(data, np.uint8, min(16 * len(present), _BLOCK, stop - position), position)
        if dtype.kind == "f":
            numbers, end = _fixed_run(window, tag, dtype)
        else:
            numbers, end = _varint_run(window, tag, dtype)
        present.extend(numbers.tolist())
        position += end
        if 2 * end <= len(window):
            return position


def _fixed_run(window: np.ndarray[Any, Any], tag: int, dtype: np.dtype[Any]) -> tuple[np.ndarray[Any, Any], int]:
    """Numbers of a fixed width at the begin of some bytes, each behind a tag of one byte, and where they end."""
    head = _written(tag)
    width = len(head) + dtype.itemsize
    rows = window[: len(window) // width * width].reshape(-1, width)
    differs = np.flatnonzero((rows[:, : len(head)] != head).any(axis=1))
    count = int(differs[0]) if len(differs) else len(rows)
    numbers = np.ascontiguousarray(rows[:count, len(head) :]).view(dtype.newbyteorder("<")).reshape(-1)
    return numbers, count * width


def _varint_run(window: np.ndarray[Any, Any], tag: int, dtype: np.dtype[Any]) -> tuple[np.ndarray[Any, Any], int]:
    """Varints at the begin of some bytes, each behind a tag, and where they end."""
    ends = np.flatnonzero(window < 0x80)
    ends = ends[: len(ends) // 2 * 2]
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    fits = ends - starts < _LONGEST
    pairs = len(fits) // 2 if fits.all() else int(np.argmin(fits)) // 2
    numbers = _varints(window[: ends[2 * pairs - 1] + 1] if pairs else window[:0])
    differs = np.flatnonzero(numbers[::2] != tag)
    count = int(differs[0]) if len(differs) else pairs
    return _in_width(numbers[1 : 2 * count : 2], dtype), int(ends[2 * count - 1]) + 1 if count else 0


def _written(value: int) -> np.ndarray[Any, Any]:
    """A number as a varint."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return np.frombuffer(bytes(written), np.uint8)


def _varints(coded: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers that follow each other.

    Args:
        coded: [number of bytes], uint8.

    Returns:
        [number of numbers], uint64.
    """
    ends = np.flatnonzero(coded < 0x80)
    if len(coded) and (not len(ends) or ends[-1] != len(coded) - 1):
        raise Malformed(_BROKEN)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    lengths = ends - starts + 1
    longest = int(lengths.max(initial=0))
    if longest > _LONGEST:
        raise Malformed(_TOO_LONG)
    numbers = np.zeros(len(ends), np.uint64)
    for place in range(longest):
        has = lengths > place
        bits = coded[starts[has] + place].astype(np.uint64) & np.uint64(0x7F)
        numbers[has] |= bits << np.uint64(7 * place)
    return numbers


def _in_width(numbers: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Numbers of 64 bits without a sign as what was written: the lowest bits, of two's complement."""
    return numbers.astype(f"u{dtype.itemsize}").view(dtype)
