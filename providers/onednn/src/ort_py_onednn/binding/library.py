"""Finding and opening oneDNN: an environment variable, a wheel's file, a conda environment, the system.

Opening starts no thread and creates no engine, so a probe may do it. Once open, the library stays in the process: its
generated code and OpenMP's threads must never be unmapped. OpenMP is asked to spin briefly only, unless the user chose
otherwise, because spinning threads rob whoever shares the machine. It does not depend on primitives.
"""

from __future__ import annotations

import os
import platform
import site
import sys
import threading
from collections.abc import Iterator
from importlib.machinery import PathFinder
from typing import Any

from ort_py.errors import EPFail
from ort_py.installed import installed_distributions, normalise_distribution
from ort_py.lazy_dataclass import dataclass

__all__ = ["VARIABLE", "WINDOWS", "Library", "Missing", "MissingRuntime", "find", "open_library", "recorded"]

WINDOWS = sys.platform == "win32"
VARIABLE = "ORT_PY_ONEDNN_LIBRARY"
_PACKAGE = "ort_py_onednn_native"
"""The package that holds nothing but the library: `native/onednn` makes it."""
SONAME, _WHEEL, _FOLDER = (
    ("dnnl.dll", "onednn-cpu-vcomp", "Library/bin") if WINDOWS else ("libdnnl.so.3", "onednn-cpu-gomp", "lib")
)
"""The library's file, the distribution that has it, and the folder of an environment that it is in."""

INSTALL = f"pip install {_WHEEL}"
_OPENMP = "libgomp.so.1"
_PLATFORMS = {("linux", "x86_64"), ("linux", "AMD64"), ("win32", "AMD64")}
_RUNTIMES = {1: "sequential", 2: "OpenMP", 4: "TBB", 8: "a thread pool of the application"}
_ISA = {
    0x1: "SSE4.1",
    0x3: "AVX",
    0x7: "AVX2",
    0xF: "AVX2 with VNNI",
    0x1F: "AVX2 with VNNI, float16 and bfloat16 conversion",
    0x27: "AVX-512",
    0x67: "AVX-512 with VNNI",
    0xE7: "AVX-512 with VNNI and bfloat16",
    0x1EF: "AVX-512 with float16",
    0xFEF: "AMX",
    0x1FEF: "AMX with float16",
    0x201FF: "AVX10.2",
    0x22FFF: "AVX10.2 with AMX",
}


@dataclass(frozen=True, slots=True)
class Library:
    """oneDNN, open.

    Attributes:
        c: Its functions, and those of the OpenMP runtime it is linked with.
        path: The file, or the name that the system's loader resolved.
        version: For instance ``(3, 2, 0)``.
        isa: The instruction sets it uses here, as oneDNN numbers them.
        threaded: Whether it has an OpenMP runtime; where not, it computes on the calling thread.
    """

    c: Any
    path: str
    version: tuple[int, int, int]
    isa: int
    threaded: bool

    @property
    def description(self) -> str:
        """Version, instruction sets and file, in words."""
        return f"oneDNN {'.'.join(map(str, self.version))} ({self.instructions}) from {self.path}"

    @property
    def instructions(self) -> str:
        """The most it uses of this CPU's instruction sets, in words."""
        return _ISA.get(self.isa, hex(self.isa))


@dataclass(frozen=True, slots=True)
class Missing:
    """The reason why there is no library, and advice."""

    reason: str
    fix: str


_lock = threading.Lock()
_found: Library | Missing | None = None


def find() -> Library | Missing:
    """The library, opened on first use, or why it cannot be used. Remembered for the process."""
    global _found  # noqa: PLW0603 - one library a process: it cannot be opened twice with different settings
    with _lock:
        if _found is None:
            _found = _find()
        return _found


def open_library() -> Library:
    """The library.

    Raises:
        EPFail: It cannot be used here.
    """
    found = find()
    if isinstance(found, Missing):
        raise EPFail(f"oneDNN cannot be used: {found.reason}.", fix=found.fix)
    return found


def _find() -> Library | Missing:
    if (sys.platform, platform.machine()) not in _PLATFORMS:
        return Missing(
            "this package binds oneDNN on Linux and Windows on x86-64 only; "
            f"this is {sys.platform} on {platform.machine()}",
            "use another CPU provider, for instance `pip install ort-py-openvino`",
        )
    with _brief_spinning():
        chosen = os.environ.get(VARIABLE)
        if chosen:
            return (
                _opened(chosen)
                if os.path.isfile(chosen)
                else Missing(f"{VARIABLE} names {chosen}, which is not a file", f"let it name a {SONAME}, or unset it")
            )
        for folder in _folders():
            path = os.path.join(folder, SONAME)
            if os.path.isfile(path):
                return _opened(path)
        if WINDOWS:
            return Missing(f"there is no {SONAME}: neither beside this Python nor in a folder of PATH", INSTALL)
        found = _opened(SONAME)
    if isinstance(found, Missing) and "cannot open shared object file" in found.reason and SONAME in found.reason:
        return Missing(f"there is no {SONAME}: neither beside this Python nor in the system's folders", INSTALL)
    return found


def _folders() -> Iterator[str]:
    """Places where wheels and conda put the file: that of our own wheel first."""
    package = PathFinder.find_spec(_PACKAGE)  # nothing of it is imported
    yield from (package and package.submodule_search_locations) or ()
    for prefix in (sys.prefix, os.environ.get("CONDA_PREFIX"), site.getuserbase(), sys.base_prefix):
        if prefix:
            yield os.path.join(prefix, _FOLDER)
    for path in recorded(_WHEEL, SONAME):
        yield os.path.dirname(path)
    if WINDOWS:
        yield from filter(None, os.environ.get("PATH", "").split(os.pathsep))


def recorded(wheel: str, name: str) -> Iterator[str]:
    """Files of a name that distributions say they installed.

    Packages may be read from another environment, or may have been installed to a folder of their own.
    """
    for found in installed_distributions():
        if normalise_distribution(found.folder_name) == wheel:
            for line in (found.read_text("RECORD") or "").splitlines():
                path = line.partition(",")[0]
                if path.rpartition("/")[2] == name:
                    yield os.path.realpath(os.path.join(found.location, path))


class _brief_spinning:  # noqa: N801 - a context manager used as a word
    """OpenMP reads its settings when it is loaded: 3,000 rounds, 30 µs, bridge what lies between two primitives, so
    that no thread sleeps on a quiet machine; on a busy one `execution.crowding` sees to it that few rounds are waited
    for. The environment is left as it was."""

    _NAMES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")

    def __enter__(self) -> None:
        self._ours = not any(name in os.environ for name in self._NAMES)
        if self._ours:
            os.environ["GOMP_SPINCOUNT"] = "3000"

    def __exit__(self, *_: object) -> None:
        if self._ours:
            os.environ.pop("GOMP_SPINCOUNT", None)


class MissingRuntime(OSError):
    """A runtime that the library is linked with cannot be opened."""


def _load(path: str) -> Any:
    """The functions of the library and of its OpenMP runtime. Both stay in the process."""
    if WINDOWS:
        from ort_py_onednn.binding.dlls import opened

        return opened(path)
    from ort_py_onednn.binding._dnnl import ffi
    from ort_py_onednn.binding.joined import Joined
    from ort_py_onednn.binding.resident import release

    joined = Joined(ffi.dlopen(path, os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_NODELETE))
    release(path)
    return joined


def _opened(path: str) -> Library | Missing:
    try:
        c = _load(path)
    except ImportError as error:
        return Missing(f"cffi's run-time part does not load: {error}", "pip install cffi")
    except MissingRuntime as error:
        return Missing(
            f"{path} needs Microsoft's C++ and OpenMP runtimes: {error}",
            "pip install msvc-runtime, or install the Microsoft Visual C++ Redistributable",
        )
    except OSError as error:
        if _OPENMP in str(error):
            return Missing(
                f"{path} needs the system's OpenMP runtime: {error}",
                "install libgomp, e.g. `apt-get install libgomp1` or `dnf install libgomp`",
            )
        return Missing(f"{path} does not load: {error}", INSTALL)
    try:
        found = c.dnnl_version()
    except AttributeError:
        return Missing(f"{path} is not oneDNN", INSTALL)
    version = (int(found.major), int(found.minor), int(found.patch))
    if version[0] != 3:
        return Missing(f"{path} is oneDNN {version[0]}.{version[1]}; its C API of version 3 is needed", INSTALL)
    if found.cpu_runtime not in {1, 2}:
        return Missing(
            f"{path} is built for {_RUNTIMES.get(found.cpu_runtime, 'another runtime')}, whose threads it hides",
            INSTALL,
        )
    return Library(c, path, version, int(c.dnnl_get_effective_cpu_isa()), found.cpu_runtime == 2)
