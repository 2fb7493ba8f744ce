"""One file with the bytecode of the modules that a process imports on its way to its first session.

For each module, the interpreter looks into a folder, asks for the time of the source, and opens and reads a ``.pyc``.
With three hundred modules this takes as long as running them. So a process copies the ``.pyc`` files of what it has
imported into one file beside them, with what it compiled itself, and later processes map that one. An entry counts only
where the ``.pyc`` would: while the source has the time and the size that the interpreter noted in it. Everything else
is imported as ever, and where the interpreter writes no bytecode, this file is not written either. Only submodules are
served, and only from the first folder of their package, where the interpreter would look first; packages are found
along `sys.path`.

A leaf that `ort_py` loads before everything else: it imports next to nothing.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from mmap import ACCESS_READ, mmap
from types import CodeType, ModuleType
from typing import cast

_WORTH = 16
"""Modules that were found elsewhere, from which on the file is written anew."""

_HEADER = 24
"""Bytes before the first module: the interpreter's version, where the table of modules begins, the size of the file."""

_32_BITS = 0xFFFFFFFF
_PYC_HEADER = 16
"""Bytes of a ``.pyc`` before its code (PEP 552)."""

_KEPT = ("ort_py.", "ort_py_", "pluggy.", "onnx.", "google.protobuf.")
"""Modules of ort-py's distributions, and of what they always need."""


class _Loader(SourceFileLoader):
    """Load a module from its files, except that its bytecode has been read already."""

    def __init__(self, name: str, path: str, bytecode: bytes) -> None:
        super().__init__(name, path)
        self._bytecode = bytecode

    def get_code(self, fullname: str) -> CodeType | None:
        bytecode, self._bytecode = self._bytecode, b""  # reloading a module reads its files
        try:
            return cast("CodeType", marshal.loads(bytecode))  # noqa: S302 - as of a `.pyc`
        except (EOFError, TypeError, ValueError):
            return super().get_code(fullname)


class BytecodeArchive:
    """A finder for `sys.meta_path` that serves modules from the file, and writes it.

    Args:
        path: The file. One that is absent, damaged or truncated has no modules.
        kept: How the names of the modules begin that are worth keeping.
    """

    def __init__(self, path: str, kept: tuple[str, ...] = _KEPT) -> None:
        self._path, self._kept = path, kept
        # Of each module: its source, its `.pyc`, the folder in which it is looked for, its own folder if it is a
        # package, the noted time and size of the source, and where its bytecode begins and ends. These are equal for
        # a module whose `.pyc` notes no time: it cannot be kept.
        self._entries: dict[str, tuple[str, str, str, str, int, int, int, int]] = {}
        self._content: mmap | bytes = b""
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - importing pathlib takes longer
                content = mmap(file.fileno(), 0, access=ACCESS_READ)
            version, table, size = (int.from_bytes(content[at : at + 8], "little") for at in range(0, _HEADER, 8))
            if (version, size) == (sys.hexversion, len(content)):
                self._entries, self._content = marshal.loads(content[table:]), content  # noqa: S302 - as of a `.pyc`
                *_, begin, end = self._entries.get("", (0, 0))  # last: an archive of an earlier version has none
                _codes.update(marshal.loads(content[begin:end]))  # noqa: S302 - likewise
        except (OSError, EOFError, TypeError, ValueError):
            return

    def find_spec(self, name: str, path: Iterable[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a module, as `importlib.abc.MetaPathFinder` has it."""
        entry = self._entries.get(name)
        if entry is None or path is None:
            return None
        source, pyc, folder, own_folder, mtime, size, begin, end = entry
        try:
            status = os.stat(source)  # noqa: PTH116 - a Path is ten times the cost
        except OSError:
            return None
        is_same = int(status.st_mtime) & _32_BITS == mtime and status.st_size & _32_BITS == size and begin < end
        if not is_same or next(iter(path), None) != folder:
            return None
        loader = _Loader(name, source, self._content[begin:end])
        spec = ModuleSpec(name, loader, origin=source, is_package=bool(own_folder))
        spec.has_location, spec.cached = True, pyc
        if own_folder:
            spec.submodule_search_locations = [own_folder]
        return spec

    def serve(self) -> None:
        """Let the interpreter ask this finder before it looks along `sys.path`, and after all others."""
        place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
        sys.meta_path.insert(place, self)

    def close(self) -> Callable[[], None] | None:
        """Serve no more modules.

        Returns:
            A function that writes the file anew, for another thread; None where that is not worth its time.
        """
        if self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        loaded = [
            getattr(module, "__spec__", None)
            for name, module in sys.modules.copy().items()
            if name.startswith(self._kept)
        ]
        sources = [spec for spec in loaded if spec is not None and spec.origin and spec.cached]
        unserved = [spec for spec in sources if type(spec.loader) is SourceFileLoader and not self._is_unfit(spec.name)]
        if len(unserved) < _WORTH or sys.dont_write_bytecode:
            self._content = b""
            return None
        return lambda: self._write(sources)

    def _is_unfit(self, name: str) -> bool:
        *_, begin, end = self._entries.get(name, (0, 1))
        return begin == end

    def _write(self, sources: Iterable[ModuleSpec]) -> None:
        """Write the file: the modules that it had, and these."""
        parts = {name: self._content[begin:end] for name, (*_, begin, end) in self._entries.items()}
        places = {name: entry[:6] for name, entry in self._entries.items()}
        for spec in sources:
            source, pyc, bytecode = str(spec.origin), str(spec.cached), b""
            with contextlib.suppress(OSError), open(pyc, "rb") as file:  # noqa: PTH123 - likewise
                bytecode = file.read()
            flags, mtime, size = (int.from_bytes(bytecode[at : at + 4], "little") for at in (4, 8, 12))
            own_folder = os.path.dirname(source)  # noqa: PTH120 - likewise
            folders = (own_folder, "")
            if spec.submodule_search_locations is not None:
                folders = (os.path.dirname(own_folder), own_folder)  # noqa: PTH120 - likewise
            places[spec.name] = (source, pyc, *folders, mtime, size)
            parts[spec.name] = b"" if flags else bytecode[_PYC_HEADER:]
        places[""], parts[""] = ("", "", "", "", 0, 0), marshal.dumps(_codes.copy())
        entries, end = {}, _HEADER
        for name, part in parts.items():
            begin, end = end, end + len(part)
            entries[name] = (*places[name], begin, end)
        table = marshal.dumps(entries)
        header = b"".join(number.to_bytes(8, "little") for number in (sys.hexversion, end, end + len(table)))
        self._content = b""
        written = f"{self._path}.{os.getpid()}"
        try:
            with open(written, "wb") as file:  # noqa: PTH123 - likewise
                file.writelines([header, *parts.values(), table])
            os.replace(written, self._path)  # noqa: PTH105 - likewise
        except OSError:  # a folder that must not be written, a full disk: it will be imported from the `.pyc` files
            with contextlib.suppress(OSError):
                os.remove(written)  # noqa: PTH107 - likewise


_archives: list[BytecodeArchive] = []
_codes: dict[str, CodeType] = {}


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
    _archives.append(BytecodeArchive(os.path.join(folder, name.replace("__init__", "modules", 1) + "s")))  # noqa: PTH118
    _archives[0].serve()


def close_archive() -> Callable[[], None] | None:
    """Serve no more modules, once a process has imported most of what it needs: see `BytecodeArchive.close`."""
    return _archives.pop().close() if _archives else None
