"""How the archive of bytecode is written: which modules can be run before the one that imports them, and their blocks.

It must not import more of ort-py than the archive itself, since it runs while the first session of a process works.
"""

from __future__ import annotations

import contextlib
import marshal
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from mmap import mmap
from types import CodeType

from ort_py.bytecode import FORMAT, WRITERS, Entry, writers_of
from ort_py.mapped_parts import UNREADABLE, Part, read_part, write_parts

_BLOCK = 64
"""Modules whose code is written together at most. They share names and constants, which makes reading them a fifth
faster."""
_PYC_HEADER = 16
"""Bytes of a ``.pyc`` before its code (PEP 552)."""


def write_archive(
    path: str,
    sources: Sequence[ModuleSpec],
    importers: Mapping[str, str],
    entries: Mapping[str, Entry],
    blocks: Sequence[Part],
    content: mmap | bytes,
    compiled: Mapping[str, CodeType],
) -> None:
    """Write the archive of bytecode: the modules that it had, and more.

    Args:
        path: The file.
        sources: Specifications of the modules that a process imported.
        importers: The name of the module that imported each first.
        entries, blocks, content: What the archive had.
        compiled: Code that processes compiled themselves, by its source.
    """
    places = {name: entry[:6] for name, entry in entries.items()}
    codes: dict[str, CodeType] = {}
    with contextlib.suppress(*UNREADABLE, IndexError):
        read = [read_part(content, block) for block in blocks]
        codes = {name: read[entry[-2]][entry[-1]] for name, entry in entries.items() if entry[-1] >= 0}
    for spec in sources:
        source, pyc = str(spec.origin), str(spec.cached)
        own_folder = os.path.dirname(source)
        folders = (own_folder, "")
        if spec.submodule_search_locations is not None:
            folders = (os.path.dirname(own_folder), own_folder)
        codes.pop(spec.name, None)
        with contextlib.suppress(OSError, EOFError, TypeError, ValueError), open(pyc, "rb") as file:
            bytecode = file.read()
            flags, mtime, size = (int.from_bytes(bytecode[at : at + 4], "little") for at in (4, 8, 12))
            places[spec.name] = (source, pyc, *folders, mtime, size)
            if not flags:
                codes[spec.name] = _of_file(marshal.loads(bytecode[_PYC_HEADER:]), source)  # noqa: S302 - it is a `.pyc`
    order, firsts = _order_of({name: importers.get(name, "") for name in places}, codes)
    writers = _writers(entries, [spec.name for spec in sources])
    together = _blocks_of([name for name in order if name in codes], writers)
    written = {name: (block, place) for block, names in enumerate(together) for place, name in enumerate(names)}
    new = {
        name: (
            *(*places[name], firsts[name], last, importers.get(name, ""), writers.get(name, 0)),
            *written.get(name, (-1, -1)),
        )
        for last, name in enumerate(order)
    }
    parts = [[codes[name] for name in names] for names in together]
    write_parts(path, FORMAT, parts, lambda places: (new, order, list(places), dict(compiled)))


def _writers(entries: Mapping[str, Entry], imported: Iterable[str]) -> dict[str, int]:
    """Which writers had imported each module: a bit for each, the last one being this process."""
    count = writers_of(entries)
    forgotten = max(count + 1 - WRITERS, 0)
    found = {name: entry[-3] >> forgotten for name, entry in entries.items()}
    for name in imported:
        found[name] = found.get(name, 0) | 1 << (count - forgotten)
    return found


def _blocks_of(names: Iterable[str], writers: Mapping[str, int]) -> list[list[str]]:
    """Names of modules that are written together, since the same processes needed them: a block is read as a whole."""
    together: dict[int, list[str]] = {}
    for name in names:
        together.setdefault(writers.get(name, 0), []).append(name)
    return [some[start : start + _BLOCK] for some in together.values() for start in range(0, len(some), _BLOCK)]


def _of_file(code: CodeType, source: str) -> CodeType:
    """Code whose tracebacks name a source: a ``.pyc`` that was moved with it names the former place."""
    if code.co_filename == source:
        return code
    constants = (_of_file(one, source) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename=source, co_consts=tuple(constants))


def _order_of(importers: Mapping[str, str], codes: Mapping[str, CodeType]) -> tuple[list[str], dict[str, int]]:
    """Order modules as they end when they are imported.

    Returns:
        The names, each behind the modules that it was the first to import, and the place of the first of these. A
        module that needs what imported it, because it lies within that package or imports it in turn, cannot be run
        before it, and stands elsewhere.
    """
    imported: dict[str, list[str]] = {}
    for name, importer in importers.items():
        imported.setdefault(importer if importer in importers else "", []).append(name)
    order: list[str] = []
    sizes: dict[str, int] = {}

    def visit(name: str, above: frozenset[str]) -> tuple[list[str], set[str]]:
        within = above | {name}
        own: list[str] = []
        needed = _needs(name, codes.get(name))
        for child in imported.get(name, ()):
            names, needs = visit(child, within)
            needed |= needs
            (order if needs & within else own).extend(names)
        own.append(name)
        sizes[name] = len(own)
        return own, needed

    for root in imported.get("", ()):
        order.extend(visit(root, frozenset())[0])
    return order, {name: last + 1 - sizes[name] for last, name in enumerate(order)}


def _needs(name: str, code: CodeType | None) -> set[str]:
    """The packages around a module, and whatever its statements may import: too many rather than too few."""
    names = code.co_names if code is not None else ()
    mentioned = {name.rpartition(".")[0], *names, *(f"{one}.{two}" for one in names if "." in one for two in names)}
    return mentioned | {one[:at] for one in mentioned for at, sign in enumerate(one) if sign == "."}
