"""Build step: takes XNNPACK's libraries and their licence out of one pinned wheel of executorch.

ExecuTorch's wheels contain XNNPACK as a library with its whole C API. Three files of the wheel are all that is needed,
about a tenth of it; executorch itself is never installed. XNNPACK promises no stable interface, so the wheel is pinned
by its hash, and a wheel of this package fits one platform.

A wheel is built for the platform it is built on, or for the one that `ORT_PY_XNNPACK_PLATFORM` names. The wheel of
executorch is downloaded with pip, which keeps it in its cache, or is the file that `ORT_PY_XNNPACK_WHEEL` names.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

RELEASE = "1.5.1"
STEMS = ("libexecutorch", "libexecutorch_threadpool", "libexecutorch_backend_xnnpack")


class Wheel(NamedTuple):
    """One wheel of executorch, for CPython 3.12: its libraries know nothing of Python.

    Attributes:
        tag: Its platform, which becomes that of our wheel.
        digest: SHA-256 of the file.
        suffix: Of libraries.
    """

    tag: str
    digest: str
    suffix: str


WHEELS = {
    "linux-x86_64": Wheel(
        "manylinux_2_28_x86_64", "04897dffff8d96e8af32f554c758d0a7d4f50af5c3530c90dc8d5319bb44c878", ".so"
    ),
    "linux-aarch64": Wheel(
        "manylinux_2_28_aarch64", "2c177f7922354a8a0d6111628c954519b87549598640e5e0042bef137b4cb83c", ".so"
    ),
    "darwin-arm64": Wheel(
        "macosx_14_0_arm64", "dfec99d4df4fd3a8e1c5bf094ee8e54859610ccefd4d37535f0b9ab77eb35750", ".dylib"
    ),
}


class NativeLibraries(BuildHookInterface[Any]):
    """Puts the libraries into the wheel, or into the source tree for an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel is built.

        Args:
            version: ``"standard"`` or ``"editable"``.
            build_data: What hatchling is told about the wheel.

        Raises:
            SystemExit: The wheel of executorch is not the one that is pinned.
        """
        name = os.environ.get("ORT_PY_XNNPACK_PLATFORM") or f"{sys.platform}-{platform.machine()}"
        wheel = WHEELS.get(name)
        if wheel is None:
            self.app.display_warning(f"There is no XNNPACK for {name}; there is one for {', '.join(WHEELS)}.")
            return  # what is built is of no use there, and the provider says so
        editable = version == "editable"
        folder = Path(self.root, *(("src", "ort_py_xnnpack", "native") if editable else ("build", name)))
        if not _has_all(folder, wheel):
            with tempfile.TemporaryDirectory() as temporary:
                _unpack(_obtained(wheel, Path(temporary)), wheel, folder)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{wheel.tag}"
        if not editable:
            build_data["force_include"][str(folder)] = "ort_py_xnnpack/native"


def _has_all(folder: Path, wheel: Wheel) -> bool:
    """Return whether the libraries of this very wheel are there already."""
    origin = folder / "ORIGIN"
    return origin.is_file() and origin.read_text(encoding="utf-8") == wheel.digest


def _obtained(wheel: Wheel, folder: Path) -> Path:
    given = os.environ.get("ORT_PY_XNNPACK_WHEEL")
    if given:
        file = Path(given)
    else:
        wish = ["--only-binary", ":all:", "--no-deps", "--platform", wheel.tag, "--python-version", "3.12"]
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", *wish]
        command += ["--implementation", "cp", "-d", str(folder), f"executorch=={RELEASE}"]
        subprocess.run(command, check=True)  # noqa: S603 - all of it is written here
        (file,) = folder.glob("*.whl")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != wheel.digest:
        raise SystemExit(
            f"{file.name} is not the wheel of executorch {RELEASE} that is pinned: its SHA-256 is {digest}."
        )
    return file


def _unpack(file: Path, wheel: Wheel, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file) as archive:
        for stem in STEMS:
            name = f"{stem}{wheel.suffix}"
            (folder / name).write_bytes(archive.read(f"executorch/lib/{name}"))
        licence = archive.read(f"executorch-{RELEASE}.dist-info/licenses/LICENSE")
    (folder / "LICENSE").write_bytes(licence)
    (folder / "ORIGIN").write_text(wheel.digest, encoding="utf-8")
