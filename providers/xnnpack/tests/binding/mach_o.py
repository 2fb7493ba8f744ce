"""Reads dynamic libraries of macOS without macOS: the symbols that one exports, its needs, and its first system.

The format is described by Apple's header `mach-o/loader.h` and, for exports, by dyld's sources. This file does not know
what the libraries are.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

__all__ = ["Image", "exports_of", "read_image"]

_MAGIC, _ARM64, _DYLIB = 0xFEEDFACF, 0x0100000C, 6
_LOADS = frozenset({0xC, 0x80000018, 0x8000001F})
"""Commands that name a library that has to be there: plain, weak and exported again."""
_ID, _RPATH, _VERSION = 0xD, 0x8000001C, 0x32
_TRIE, _INFO, _SIGNATURE = 0x80000033, 0x80000022, 0x1D


class Image(NamedTuple):
    """A library.

    Attributes:
        name: The name by which others load it.
        needs: Names of the libraries that it loads.
        paths: Where it looks for those that begin with ``@rpath``.
        oldest: The first version of macOS that it is made for.
        exports: The symbols, without the underscore that C has in front of its names.
        signed: Whether it has a signature, without which macOS loads no code for Apple silicon.
    """

    name: str
    needs: tuple[str, ...]
    paths: tuple[str, ...]
    oldest: tuple[int, int]
    exports: frozenset[str]
    signed: bool


def read_image(file: Path) -> Image:
    """Read a library of 64 bits for Apple silicon.

    Raises:
        ValueError: It is something else.
    """
    data = file.read_bytes()
    magic, machine, _, kind, count = struct.unpack_from("<5I", data)
    if (magic, machine, kind) != (_MAGIC, _ARM64, _DYLIB):
        raise ValueError(f"{file.name} is no library for Apple silicon")
    name, needs, paths, oldest, signed = "", [], [], (0, 0), False
    exports: frozenset[str] = frozenset()
    place = 32
    for _ in range(count):
        command, size = struct.unpack_from("<2I", data, place)
        body = data[place : place + size]
        if command == _ID:
            name = _text(body)
        elif command in _LOADS:
            needs.append(_text(body))
        elif command == _RPATH:
            paths.append(_text(body))
        elif command == _VERSION:
            version = struct.unpack_from("<I", body, 12)[0]
            oldest = version >> 16, version >> 8 & 255
        elif command in {_TRIE, _INFO}:
            start, length = struct.unpack_from("<2I", body, 8 if command == _TRIE else 40)
            exports = frozenset(exports_of(data[start : start + length]))
        elif command == _SIGNATURE:
            signed = True
        place += size
    return Image(name, tuple(needs), tuple(paths), oldest, exports, signed)


def exports_of(trie: bytes) -> list[str]:
    """The names in a tree of exported symbols, each edge of which has the next part of names."""
    found: list[str] = []
    pending = [(0, "")] if trie else []
    while pending:
        place, name = pending.pop()
        size, place = _number(trie, place)
        if size:
            found.append(name.removeprefix("_"))
        place += size
        edges = trie[place]
        place += 1
        for _ in range(edges):
            end = trie.index(0, place)
            part = trie[place:end].decode()
            child, place = _number(trie, end + 1)
            pending.append((child, name + part))
    return found


def _text(body: bytes) -> str:
    """The string of a load command, which says first where it begins."""
    return body[struct.unpack_from("<I", body, 8)[0] :].split(b"\0", 1)[0].decode()


def _number(data: bytes, place: int) -> tuple[int, int]:
    """An integer of any size, seven bits a byte, and where the next one begins."""
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place
