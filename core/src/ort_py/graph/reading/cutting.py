"""A serialised model taken apart: the bytes of large tensors are left where they are, the rest is small to parse.

Protobuf copies all it parses, so a model of 1 GiB would be in memory twice before the first weight is made. Here only
tags and lengths are read; each large ``raw_data`` gives way to a placeholder that no model can guess, and `tensors`
finds the bytes by it. Anything unexpected is left as it is, for protobuf to judge. Comes after `sources` has the
content, before it is parsed. It uses only the numbers of those fields of onnx.proto that lead to tensors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import field
from typing import TypeAlias

from ort_py.files import FileIdentity
from ort_py.graph.weights.weights import FilePart
from ort_py.lazy_dataclass import dataclass

SMALLEST_CUT = 4096
"""Bytes of ``raw_data`` from which a tensor is cut out: below, two dictionary entries cost as much as the copy."""

_MOST_FIELDS = 2_000_000
"""Fields looked at before giving up, about half a second: a file of nothing but tiny fields is not worth more."""

_DEEPEST = 200
"""Messages inside messages that are followed; protobuf itself stops at 100."""

_MODEL, _GRAPH, _NODE, _ATTRIBUTE, _TENSOR, _SPARSE, _FUNCTION, _RAW = range(8)

_FIELDS: tuple[dict[int, int], ...] = (
    {7: _GRAPH, 25: _FUNCTION},
    {1: _NODE, 5: _TENSOR, 15: _SPARSE},
    {5: _ATTRIBUTE},
    {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH, 22: _SPARSE, 23: _SPARSE},
    {9: _RAW},
    {1: _TENSOR, 2: _TENSOR},
    {7: _NODE},
)
"""By kind of message, the numbers of the fields that hold tensors somewhere inside (onnx.proto, IR version 13)."""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5

Part: TypeAlias = "bytes | memoryview"


@dataclass(slots=True)
class CutModel:
    """A model in two: what is parsed, and the bytes of its large tensors.

    Attributes:
        content: All bytes of the model.
        skeleton: A message equal to them but for the placeholders; empty where nothing was cut.
        pieces: (start, stop) in `content` by placeholder.
        path: The file the content is of; ``""`` for bytes that a caller gave.
        identity: Identity of that file; None without one.
    """

    content: memoryview
    skeleton: bytes = b""
    pieces: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    path: str = ""
    identity: FileIdentity | None = None

    def find(self, raw: bytes) -> tuple[memoryview, FilePart | None] | None:
        """The bytes that a placeholder stands for and the file part to read them from again; None if it is not a
        placeholder.
        """
        place = self.pieces.get(raw)
        if place is None:
            return None
        part = FilePart(self.path, self.identity, *place) if self.identity is not None else None
        return self.content[place[0] : place[1]], part

    def parts(self) -> Iterator[bytes | tuple[bytes, memoryview]]:
        """All bytes in order: those between the pieces, and (placeholder, bytes) of each piece."""
        position = 0
        for placeholder, (start, stop) in self.pieces.items():
            yield bytes(self.content[position:start])
            yield placeholder, self.content[start:stop]
            position = stop
        yield bytes(self.content[position:])


class _Message:
    """One message being read: where it ends, and its parts so far where something in it was cut."""

    __slots__ = ("copied", "kind", "parts", "stop", "tag_stop")

    def __init__(self, kind: int, start: int, stop: int, tag_stop: int) -> None:
        self.kind = kind
        self.stop = stop
        self.copied = start
        self.tag_stop = tag_stop
        self.parts: list[Part] = []


def cut(content: memoryview, path: str = "", identity: FileIdentity | None = None) -> CutModel:
    """Cut the large tensors out of a serialised model.

    Returns:
        The parts; without a skeleton where nothing is large, or the bytes are not what a model's are.
    """
    result = CutModel(content, path=path, identity=identity)
    if content.nbytes < SMALLEST_CUT:
        return result
    try:
        skeleton, pieces = _cut(content)
    except (IndexError, ValueError):  # broken off, or no protobuf at all: parsing it says so
        return result
    if pieces:
        result.skeleton, result.pieces = skeleton, pieces
    return result


def _cut(content: memoryview) -> tuple[bytes, dict[bytes, tuple[int, int]]]:
    """The skeleton and the pieces: one loop over the fields of all messages that may hold tensors, no recursion."""
    token = os.urandom(16)
    pieces: dict[bytes, tuple[int, int]] = {}
    message = _Message(_MODEL, 0, content.nbytes, 0)
    outer: list[_Message] = []
    position = 0
    for _ in range(_MOST_FIELDS):
        while position >= message.stop:
            if position > message.stop:
                raise ValueError("a field extends beyond the end of its message")
            if not outer:
                message.parts.append(content[message.copied :])
                return b"".join(message.parts), pieces
            inner, message = message, outer.pop()
            _close(content, inner, message)
        tag, tag_stop = _varint(content, position)
        wire = tag & 7
        if wire != _LENGTH:
            position = _skipped(content, tag_stop, wire)
            continue
        length, position = _varint(content, tag_stop)
        stop = position + length
        kind = _FIELDS[message.kind].get(tag >> 3) if length >= SMALLEST_CUT else None
        if kind is None or len(outer) >= _DEEPEST:
            position = stop
        elif kind != _RAW:
            outer.append(message)
            message = _Message(kind, position, stop, tag_stop)
        elif stop > message.stop:
            raise ValueError("a tensor extends beyond the end of its message")
        else:
            placeholder = token + len(pieces).to_bytes(4, "little")
            pieces[placeholder] = position, stop
            message.parts += (content[message.copied : tag_stop], _length(len(placeholder)), placeholder)
            message.copied = position = stop
    raise ValueError("too many fields")


def _skipped(content: memoryview, position: int, wire: int) -> int:
    """Position at which a field without a length ends."""
    if wire == _VARINT:
        return _varint(content, position)[1]
    if wire in (_FIXED64, _FIXED32):
        return position + (8 if wire == _FIXED64 else 4)
    raise ValueError("a group, which ONNX does not use")


def _close(content: memoryview, inner: _Message, outer: _Message) -> None:
    """A message has ended: put its parts, with their new length, in place of it in the one around."""
    if not inner.parts:
        return
    inner.parts.append(content[inner.copied : inner.stop])
    outer.parts.append(content[outer.copied : inner.tag_stop])
    outer.parts.append(_length(sum(map(len, inner.parts))))
    outer.parts += inner.parts
    outer.copied = inner.stop


def _varint(content: memoryview, position: int) -> tuple[int, int]:
    """(a number, where it ends)."""
    byte = content[position]
    if byte < 0x80:  # nearly all are
        return byte, position + 1
    value = shift = 0
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _length(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
