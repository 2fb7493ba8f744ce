"""One file with the bytecode of the modules that a process imports on its way to its first session.

For each module, the interpreter looks into a folder, asks for the time of the source, and opens and reads a ``.pyc``.
With three hundred modules this takes as long as running them. So a process copies the ``.pyc`` files of what it has
imported into one file beside them, with what it compiled itself, and later processes map that one. An entry counts only
where the ``.pyc`` would: while the source has the time and the size that the interpreter noted in it. Everything else
is imported as ever, and where the interpreter writes no bytecode, this file is not written either. Only submodules are
served, and only from the first folder of their package, where the interpreter would look first; packages are found
along `sys.path`. `ort_py.bytecode_writing` has how it is written.

A leaf that `ort_py` loads before everything else: it imports next to nothing.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder, SourceFileLoader
from mmap import mmap
from types import CodeType, ModuleType
from typing import Any

from ort_py.mapped_parts import UNREADABLE, Part, open_parts, read_part

_WORTH = 16
"""Modules that were found elsewhere, from which on the file is written again."""

_UNUSED = 48
"""Modules that were read and not imported, from which on the file is arranged again."""

WRITERS = 16
"""Processes of which the file tells which modules they had imported. So many may arrange it again."""

FORMAT = 4
"""Raised whenever the entries change: an earlier release may have left its file here."""

Entry = tuple[str, str, str, str, int, int, int, int, str, int, int, int]
"""Of a module: its source, its ``.pyc``, the folder in which it is looked for, its own folder if it is a package, the
noted time and size of the source, where the modules that it imports begin and end in the order of all, the module that
imported it first, which writers had imported it (a bit for each), its block and its place there. The place is negative
where the ``.pyc`` notes no time."""

_BUILT_IN = (BuiltinImporter, FrozenImporter)
"""Finders that have no submodules."""

_32_BITS = 0xFFFFFFFF
_KEPT = ("ort_py.", "ort_py_", "pluggy.", "onnx.", "google.protobuf.")
"""Modules of ort-py's distributions, and of what they always need."""


def writers_of(entries: Mapping[str, Entry]) -> int:
    """Return the number of writers that the entries mention."""
    return max([entry[-3].bit_length() for entry in entries.values()], default=0)


class _Loader(SourceFileLoader):
    """Load a module from its files, except that its bytecode has been read already."""

    def __init__(self, name: str, path: str, archive: BytecodeArchive) -> None:
        self.name, self.path = name, path  # what the base class does, at the cost of two more calls
        self._archive = archive

    def get_code(self, fullname: str) -> CodeType | None:
        return self._archive.take_code(fullname) or super().get_code(fullname)

    def exec_module(self, module: ModuleType) -> None:
        self._archive.run_imported_by(module.__name__)
        super().exec_module(module)


class BytecodeArchive:
    """A finder for `sys.meta_path` that serves modules from the file, and writes it.

    Args:
        path: The file. One that is absent, damaged or truncated has no modules.
        kept: How the names of the modules begin that are worth keeping.
    """

    def __init__(self, path: str, kept: tuple[str, ...] = _KEPT) -> None:
        self._path, self._kept = path, kept
        self._entries: dict[str, Entry] = {}
        self._blocks: list[Part] = []
        self._opened: dict[int, list[CodeType | None]] = {}
        self._order: list[str] = []
        self._importers: dict[str, str] = {}
        self._content: mmap | bytes = b""
        was_on = gc.isenabled()
        gc.disable()  # the table is thousands of tuples, none of which is garbage
        try:
            content, (self._entries, self._order, self._blocks, codes) = open_parts(path, FORMAT)
        except UNREADABLE:
            return
        finally:
            if was_on:
                gc.enable()
        self._content = content
        _codes.update(codes)

    def find_spec(self, name: str, path: Iterable[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a module, as `importlib.abc.MetaPathFinder` has it."""
        if path is None:
            return None
        spec = self._spec(name, path)
        if spec is None and name.startswith(self._kept):
            frame = sys._getframe()
            while frame.f_back is not None and frame.f_code.co_name != "<module>":
                frame = frame.f_back
            self._importers[name] = str(frame.f_globals.get("__name__", ""))
        return spec

    def _spec(self, name: str, path: Iterable[str]) -> ModuleSpec | None:
        entry = self._entries.get(name)
        if entry is None:
            return None
        source, pyc, folder, own_folder, mtime, size, *_ = entry
        try:
            status = os.stat(source)
        except OSError:
            return None
        is_same = int(status.st_mtime) & _32_BITS == mtime and status.st_size & _32_BITS == size and entry[-1] >= 0
        if not is_same or next(iter(path), None) != folder:
            return None
        spec = ModuleSpec(name, _Loader(name, source, self), origin=source, is_package=bool(own_folder))
        spec.has_location, spec.cached = True, pyc
        if own_folder:
            spec.submodule_search_locations = [own_folder]
        return spec

    def take_code(self, name: str) -> CodeType | None:
        """The code of a module, once: reloading a module reads its files."""
        entry = self._entries.get(name)
        if entry is None:  # the archive is closed
            return None
        number, place = entry[-2:]
        codes = self._opened.get(number)
        if codes is None:
            try:
                codes = read_part(self._content, self._blocks[number])
            except UNREADABLE:
                codes = []
            self._opened[number] = codes
        if place >= len(codes):
            return None
        code, codes[place] = codes[place], None
        return code

    def run_imported_by(self, name: str) -> None:
        """Run the modules that a module is about to import, in the order in which they end.

        The interpreter spends as long on finding, locking and initialising a module as on running it. Without other
        threads, nothing needs to be locked.
        """
        if self not in sys.meta_path or len(sys._current_frames()) > 1:
            return
        first, last = self._entries[name][6:8]
        if first == last:
            return
        asked_first = [finder for finder in sys.meta_path[: sys.meta_path.index(self)] if finder not in _BUILT_IN]
        modules = sys.modules
        for imported in self._order[first:last]:
            package, _, child = imported.rpartition(".")
            parent = modules.get(package)
            if parent is None or imported in modules or child in vars(parent):  # there may be a stand-in
                continue
            path = getattr(parent, "__path__", ())
            spec = self._spec(imported, path)
            if spec is None or (asked_first and any(_takes(finder, imported, path) for finder in asked_first)):
                continue
            code = self.take_code(imported)
            if code is None:
                continue
            module = ModuleType(imported)
            known = module.__dict__
            known["__spec__"], known["__loader__"], known["__file__"] = spec, spec.loader, spec.origin
            known["__cached__"], known["__package__"] = spec.cached, package
            if spec.submodule_search_locations is not None:
                known["__package__"], known["__path__"] = imported, spec.submodule_search_locations
            modules[imported] = module
            try:
                exec(code, known)  # noqa: S102 - as the interpreter does it
            except BaseException as error:
                modules.pop(imported, None)
                if not isinstance(error, Exception):
                    raise
                continue  # the statement that imports it runs it again, and reports the error where it stands
            setattr(parent, child, modules.get(imported, module))  # some put another object in their own place

    def serve(self) -> None:
        """Let the interpreter ask this finder before it looks along `sys.path`, and after all others."""
        place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
        sys.meta_path.insert(place, self)

    def close(self) -> Callable[[], None] | None:
        """Serve no more modules.

        Returns:
            A function that writes the file again, for another thread; None where that is not worth its time.
        """
        if self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        is_wasteful = self._is_wasteful()
        if len(self._importers) < _WORTH and not is_wasteful:  # fewer were even looked for elsewhere
            self._forget()
            return None
        loaded = [
            getattr(module, "__spec__", None)
            for name, module in sys.modules.copy().items()
            if name.startswith(self._kept)
        ]
        sources = [spec for spec in loaded if spec is not None and spec.origin and spec.cached]
        unserved = [spec for spec in sources if type(spec.loader) is SourceFileLoader and not self._is_unfit(spec.name)]
        content, entries, blocks = self._content, self._entries, self._blocks
        importers = {name: entry[8] for name, entry in entries.items()} | self._importers
        self._forget()
        if (len(unserved) < _WORTH and not is_wasteful) or sys.dont_write_bytecode:
            return None
        from ort_py.bytecode_writing import write_archive  # most processes write nothing

        return partial(write_archive, self._path, sources, importers, entries, blocks, content, _codes)

    def _forget(self) -> None:
        """Let go of everything read: the loader of each module refers to this archive."""
        self._content, self._entries, self._blocks = b"", {}, []
        self._opened, self._order, self._importers = {}, [], {}

    def _is_wasteful(self) -> bool:
        """Return whether many modules were read because others of their blocks were needed, and blocks may change."""
        unused = sum([len(codes) - codes.count(None) for codes in self._opened.values()])
        return unused >= _UNUSED and writers_of(self._entries) < WRITERS

    def _is_unfit(self, name: str) -> bool:
        return name in self._entries and self._entries[name][-1] < 0


def _takes(finder: Any, name: str, path: Iterable[str]) -> bool:
    """Return whether a finder has a module, or refuses it: the statement that imports the module asks it again."""
    try:
        return finder.find_spec(name, path) is not None
    except Exception:
        return True


_archives: list[BytecodeArchive] = []
_codes: dict[str, CodeType] = {}
_others: list[Callable[[], None]] = []


def compiled(source: str) -> CodeType:
    """Compile what is made up while a process runs. The archive keeps it beside the modules."""
    if source not in _codes:
        _codes[source] = compile(source, "<string>", "exec")
    return _codes[source]


def open_archive(package: ModuleSpec | None) -> None:
    """Serve modules from the archive that lies beside the ``.pyc`` of a package, if it has one.

    Args:
        package: The specification of the package.
    """
    if package is None or not package.cached or _archives:
        return
    folder, name = os.path.split(package.cached)
    _archives.append(BytecodeArchive(os.path.join(folder, name.replace("__init__", "modules", 1) + "s")))
    _archives[0].serve()


def write_later(write: Callable[[], None]) -> None:
    """Write another file that lies beside the ``.pyc`` of this package when the archive would be written."""
    if not sys.dont_write_bytecode:
        _others.append(write)


def close_archive() -> list[Callable[[], None]]:
    """Serve no more modules, once a process has imported most of what it needs.

    Returns:
        Functions that write what the next process reads, for another thread: see `BytecodeArchive.close`.
    """
    try:
        write = _archives.pop().close()
    except IndexError:  # closed before, perhaps by another thread just now
        write = None
    others, _others[:] = _others[:], []
    return [*([] if write is None else [write]), *others]
