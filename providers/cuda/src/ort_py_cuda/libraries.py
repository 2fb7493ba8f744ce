"""NVIDIA's libraries by name: where each is, and loading it.

A library that the process has loaded already is taken, so that ort-py, CuPy and torch do not each have one of their
own. Otherwise that of NVIDIA's wheels, then that of a CUDA toolkit, then what the system's loader finds. It does not
depend on functions of any of them. Comes after `installed`; before the bindings.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from ort_py.errors import EPFail
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.installed import cuda_major, install_command

__all__ = ["LIBRARIES", "Library", "find", "include_folders", "load", "wheel_version"]

_WINDOWS = sys.platform == "win32"


@dataclass(frozen=True, slots=True)
class Library:
    """One of NVIDIA's libraries.

    Attributes:
        stem: Its name in files, without what systems put around it.
        wheels: Distribution by CUDA version; empty where it comes with the driver.
        folder: Its folder below ``nvidia`` in wheels for CUDA 12; those for CUDA 13 share one.
        versions: Version in its file's name by CUDA version; the CUDA version itself where it is not here.
        windows: Patterns of its file's name on Windows; ``{stem}64_*.dll`` where empty.
        own_folder: Whether it keeps its folder of its own in wheels for CUDA 13 too.
    """

    stem: str
    wheels: dict[int, str]
    folder: str = ""
    versions: dict[int, int] | None = None
    windows: str = ""
    own_folder: bool = False


LIBRARIES: dict[str, Library] = {
    "cuda": Library("cuda", {}, windows="nvcuda.dll"),
    "cudart": Library("cudart", {12: "nvidia-cuda-runtime-cu12", 13: "nvidia-cuda-runtime"}, "cuda_runtime"),
    "nvrtc": Library("nvrtc", {12: "nvidia-cuda-nvrtc-cu12", 13: "nvidia-cuda-nvrtc"}, "cuda_nvrtc"),
    "cublas": Library("cublas", {12: "nvidia-cublas-cu12", 13: "nvidia-cublas"}, "cublas"),
    "cublasLt": Library("cublasLt", {12: "nvidia-cublas-cu12", 13: "nvidia-cublas"}, "cublas"),
    "cufft": Library("cufft", {12: "nvidia-cufft-cu12", 13: "nvidia-cufft"}, "cufft", {12: 11, 13: 12}),
    "curand": Library("curand", {12: "nvidia-curand-cu12", 13: "nvidia-curand"}, "curand", {12: 10, 13: 10}),
    "cusolver": Library("cusolver", {12: "nvidia-cusolver-cu12", 13: "nvidia-cusolver"}, "cusolver", {12: 11, 13: 12}),
    "cusparse": Library("cusparse", {12: "nvidia-cusparse-cu12", 13: "nvidia-cusparse"}, "cusparse", {12: 12, 13: 12}),
    "cudnn": Library(
        "cudnn", {12: "nvidia-cudnn-cu12", 13: "nvidia-cudnn-cu13"}, "cudnn", {12: 9, 13: 9}, own_folder=True
    ),
}


def find(name: str, major: int | None = None) -> Path | None:
    """The file that `load` would open, as far as folders tell; loads nothing.

    Args:
        name: Key of `LIBRARIES`.
        major: The CUDA version; that of this installation where None.

    Returns:
        None where no wheel, no toolkit and no folder of the system has it.
    """
    return _find(name, cuda_major() if major is None else major)


def load(name: str) -> ctypes.CDLL:
    """One of the libraries, loaded once a process.

    Args:
        name: Key of `LIBRARIES`.

    Raises:
        EPFail: It is not there or does not load; says where it was looked for and what brings it.
    """
    return _load(name, cuda_major())


@cache
def _load(name: str, major: int) -> ctypes.CDLL:
    tried: list[str] = []
    for soname in _sonames(name, major):
        loaded = _loaded(soname)
        if loaded is not None:
            return loaded
    path = _find(name, major)
    for candidate in ([str(path)] if path is not None else []) + _sonames(name, major):
        try:
            return _open(candidate)
        except OSError as error:
            tried.append(f"{candidate}: {error}")
    folders = [str(folder) for folder in _folders(LIBRARIES[name], major)]
    raise EPFail(
        f"NVIDIA's library {LIBRARIES[name].stem} cannot be loaded.",
        why=[*tried, _looked_in(name, folders)],
        fix=_fix(name, major),
    )


def include_folders() -> tuple[Path, ...]:
    """Folders of the CUDA headers that generated kernels include, of NVIDIA's wheels or of a toolkit; may be none."""
    roots = [*_wheel_roots(), *_toolkits()]
    found = []
    for root in roots:
        for part in ("cu13/include", "cuda_runtime/include", "cuda_cccl/include", "cu13/include/cccl", "include"):
            folder = root / part
            if (folder / "cuda_fp16.h").is_file() or (folder / "nv" / "target").is_file():
                found.append(folder)
    return tuple(found)


def wheel_version(name: str, major: int | None = None) -> str | None:
    """Version of the wheel that brings a library, None where none is installed."""
    distribution = LIBRARIES[name].wheels.get(cuda_major() if major is None else major)
    try:
        return None if distribution is None else version(distribution)
    except PackageNotFoundError:
        return None


def _looked_in(name: str, folders: list[str]) -> str:
    if not LIBRARIES[name].wheels:
        return "it comes with NVIDIA's driver, where the system's loader finds it"
    return f"looked for in {', '.join(folders) or 'no folder: no NVIDIA wheel and no toolkit is there'}"


def _fix(name: str, major: int) -> str:
    library = LIBRARIES[name]
    if not library.wheels:
        return "install NVIDIA's driver: https://www.nvidia.com/drivers"
    if not major:
        return install_command()
    return f"{install_command(major)}, or only {library.wheels[major]}"


def _find(name: str, major: int) -> Path | None:
    library = LIBRARIES[name]
    for folder in _folders(library, major):
        for pattern in _patterns(library, major):
            for path in sorted(folder.glob(pattern)):
                return path
    return None


def _folders(library: Library, major: int) -> list[Path]:
    """Folders that exist and may hold a library, in the order they are looked through."""
    if not library.wheels:
        return []  # the driver's, where the system's loader looks
    parts = ("bin", "bin/x86_64", "bin/x64") if _WINDOWS else ("lib", "lib64")
    candidates = []
    for root in _wheel_roots():
        names = [library.folder] if major == 12 or library.own_folder else [f"cu{major or 13}", library.folder]
        candidates += [root / name / part for name in names for part in parts]
    candidates += [toolkit / part for toolkit in _toolkits() for part in parts]
    candidates += _system_folders()
    return [folder for folder in candidates if folder.is_dir()]


def _system_folders() -> list[Path]:
    """Further folders of the system's loader: conda's environment, packages of the system, what the user adds."""
    if _WINDOWS:
        return [Path(sys.prefix) / "Library" / "bin"]
    added = [Path(one) for one in os.environ.get("LD_LIBRARY_PATH", "").split(":") if one]
    machine = os.uname().machine
    return [*added, Path(sys.prefix) / "lib", Path(f"/usr/lib/{machine}-linux-gnu"), Path("/usr/lib64")]


def _wheel_roots() -> list[Path]:
    """The folders ``nvidia`` of this Python's paths."""
    try:
        spec = find_spec("nvidia")
    except (ImportError, ValueError):
        return []
    return [Path(one) for one in (spec.submodule_search_locations or ())] if spec is not None else []


def _toolkits() -> Iterator[Path]:
    for variable in ("CUDA_PATH", "CUDA_HOME"):
        value = os.environ.get(variable)
        if value:
            yield Path(value)
    if not _WINDOWS:
        yield Path("/usr/local/cuda")


def _number(library: Library, major: int) -> int:
    return (library.versions or {}).get(major, major)


def _patterns(library: Library, major: int) -> list[str]:
    """Names of its file; of any version where the CUDA version is not known."""
    if _WINDOWS:
        number = f"{_number(library, major)}*" if major else "*"
        return [library.windows or f"{library.stem}64_{number}.dll"]
    return [f"lib{library.stem}.so.{_number(library, major)}" if major else f"lib{library.stem}.so.[0-9]*"]


def _sonames(name: str, major: int) -> list[str]:
    """Names under which the system's loader looks for a library."""
    library = LIBRARIES[name]
    if not library.wheels:
        return ["nvcuda.dll"] if _WINDOWS else ["libcuda.so.1"]
    majors = [major] if major else sorted(library.wheels, reverse=True)
    if _WINDOWS:
        return [f"{library.stem}64_{_number(library, one)}.dll" for one in majors]
    return [f"lib{library.stem}.so.{_number(library, one)}" for one in majors]


def _loaded(soname: str) -> ctypes.CDLL | None:
    """The library where the process has it already."""
    no_load = getattr(os, "RTLD_NOLOAD", None)
    if no_load is None:
        return None
    try:
        return ctypes.CDLL(soname, mode=no_load | os.RTLD_NOW)
    except OSError:
        return None


def _open(candidate: str) -> ctypes.CDLL:
    if _WINDOWS and Path(candidate).is_absolute():
        getattr(os, "add_dll_directory")(str(Path(candidate).parent))  # noqa: B009 - of Windows alone
    return ctypes.CDLL(candidate)
