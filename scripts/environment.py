"""Make the project's virtual environment, `.venv`, with what a command needs; do nothing where it is there already.

Runs on a bare Python 3.11+: standard library only. The packages of the workspace are installed in editable form, so
that an edit is seen by the next command; what a stamp file remembers (the version, and the text of every requirements
file and pyproject.toml involved) decides whether anything has to be installed again.

`ORT_PY_ENV` names another environment that is complete already; it is used as it is. `.ci/run` tests wheels this way.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

from workspace import ROOT, read_version

__all__ = ["ROOT", "ensure_beside", "ensure_environment", "ensure_tools", "run_in"]

_WITH_THE_GIL_ONLY = ("google-re2==",)
"""Requirements without a wheel for free-threaded Pythons; no marker tells those from others."""
_FAST_CPU = {
    ("linux", "x86_64"): "providers/onednn",
    ("linux", "aarch64"): "providers/xnnpack",
    ("darwin", "arm64"): "providers/xnnpack",
    ("win32", "AMD64"): "providers/onednn",
}.get((sys.platform, platform.machine()))
_INSTALLED = ("core", "providers/array", "providers/cpu", *((_FAST_CPU,) if _FAST_CPU else ()))
_MEMBERS = {"demo.txt": _INSTALLED, "dev.txt": (*_INSTALLED, "kit")}
"""Folders of the distributions that go with each file of requirements: those that `pip install ort-py` brings on this
platform, and for development the kit, which the tests use. The example plug-ins are built by their own tests."""


def ensure_environment(requirements: str) -> Path:
    """The Python of an environment that has the workspace and one file of `requirements/`.

    Args:
        requirements: Name of the file, e.g. ``"dev.txt"``.

    Returns:
        Path of the environment's interpreter.

    Raises:
        SystemExit: This Python is too old, or pip failed; its output stands above.
    """
    if sys.version_info < (3, 11):  # noqa: UP036 - the reader may have an older one
        raise SystemExit(f"ort-py needs Python 3.11 or newer; this is {sys.version.split()[0]}, {sys.executable}.")
    foreign = os.environ.get("ORT_PY_ENV")
    if foreign:
        return _python_of(Path(foreign))
    folder = ROOT / ".venv"
    python = _python_of(folder)
    stamp = folder / f".ort-py-{requirements}"
    wanted = _fingerprint(requirements)
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    started = time.perf_counter()
    if not python.exists():
        _say(f"creating {folder.relative_to(ROOT)} with Python {sys.version.split()[0]}")
        venv.create(folder, with_pip=True, upgrade_deps=False)
    _say(f"installing the workspace and requirements/{requirements} (a few minutes the first time)")
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    command += ["-r", str(_available(ROOT / "requirements" / requirements, folder))]
    for member in _MEMBERS[requirements]:
        command += ["--editable", str(ROOT / member)]
    outcome = subprocess.run(command, cwd=ROOT, check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    if outcome.returncode:
        raise SystemExit(f"pip failed with exit code {outcome.returncode}; its messages stand above.")
    stamp.write_text(wanted)
    _say(f"environment ready after {time.perf_counter() - started:.0f} s")
    return python


_NEEDS = {"tensorrt": ("cuda",)}
"""Providers that need another one, which the environment of the tests does not have either."""


def ensure_beside(python: Path, name: str) -> Path:
    """The Python of an environment that adds packages to another environment's, or takes their place.

    Args:
        python: Interpreter of the other environment.
        name: What is added: the provider in this folder of `providers/`, what ``requirements/<name>.txt`` lists, or
            both where there are both.

    Returns:
        Path of the interpreter; `.venv-<name>` holds it.

    Raises:
        SystemExit: Nothing of this name exists, or pip failed; its output stands above.
    """
    member, requirements = ROOT / "providers" / name, ROOT / "requirements" / f"{name}.txt"
    project = member / "pyproject.toml"
    if not project.exists() and not requirements.exists():
        known = ", ".join(sorted(file.parent.name for file in ROOT.glob("providers/*/pyproject.toml")))
        raise SystemExit(f"There is no provider {name!r} in providers/; there are {known}.")
    folder = ROOT / f".venv-{name}"
    beside, stamp = _python_of(folder), folder / ".ort-py-beside"
    files = [file for file in (project, requirements) if file.exists()]
    below = _output_of(python, "import sysconfig; print(sysconfig.get_path('purelib'))")
    wanted = hashlib.sha256(
        b"".join([below.encode(), read_version().encode(), *(file.read_bytes() for file in files)])
    ).hexdigest()
    if beside.exists() and stamp.exists() and stamp.read_text() == wanted:
        return beside
    _say(f"creating {folder.relative_to(ROOT)}: {name} beside {below}")
    venv.create(folder, with_pip=True, upgrade_deps=False)
    own = Path(_output_of(beside, "import sysconfig; print(sysconfig.get_path('purelib'))"))
    # Not the bare path: what is installed there in editable form is found through .pth files of its own.
    (own / "below.pth").write_text(f"import site; site.addsitedir({below!r})\n")
    command = [str(beside), "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", "--no-deps"]
    for one in (name, *_NEEDS.get(name, ())) if project.exists() else ():
        command += ["--editable", str(ROOT / "providers" / one)]
    command += ["-r", str(requirements)] if requirements.exists() else []
    outcome = subprocess.run(command, cwd=ROOT, check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    if outcome.returncode:
        raise SystemExit(f"pip failed with exit code {outcome.returncode}; its messages stand above.")
    stamp.write_text(wanted)
    return beside


def ensure_tools(name: str) -> Path:
    """The Python of an environment that has the tools of one file of `requirements/` and nothing of the workspace.

    Args:
        name: Name of the file without its suffix; it pins every package by hash. `.venv-<name>` holds the environment.

    Returns:
        Path of the interpreter.

    Raises:
        SystemExit: pip failed; its output stands above.
    """
    requirements, folder = ROOT / "requirements" / f"{name}.txt", ROOT / f".venv-{name}"
    python, stamp = _python_of(folder), folder / ".ort-py-tools"
    wanted = hashlib.sha256(sys.version.encode() + requirements.read_bytes()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    _say(f"creating {folder.relative_to(ROOT)} with requirements/{requirements.name}")
    venv.create(folder, with_pip=True, upgrade_deps=False)
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    command += ["--require-hashes", "-r", str(requirements)]
    outcome = subprocess.run(command, cwd=ROOT, check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    if outcome.returncode:
        raise SystemExit(f"pip failed with exit code {outcome.returncode}; its messages stand above.")
    stamp.write_text(wanted)
    return python


def run_in(python: Path, arguments: list[str]) -> int:
    """Run the environment's Python in the repository's root; returns its exit code."""
    environment = dict(os.environ)
    # The environment's scripts (ort-py, ruff) come first, as they would in an activated environment.
    environment["PATH"] = f"{python.parent}{os.pathsep}{environment.get('PATH', '')}"
    sys.stdout.flush()
    return subprocess.run([str(python), *arguments], cwd=ROOT, env=environment, check=False).returncode


def _python_of(folder: Path) -> Path:
    # Not resolved: the interpreter's own path is what makes it use the environment.
    windows = sys.platform == "win32"
    return folder.absolute() / ("Scripts/python.exe" if windows else "bin/python")


def _output_of(python: Path, code: str) -> str:
    return subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def _available(requirements: Path, folder: Path) -> Path:
    """The file, or where Python runs without the GIL a copy of it that lacks what has no such wheels."""
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return requirements
    lines = requirements.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith(_WITH_THE_GIL_ONLY)]
    copy = folder / requirements.name
    copy.write_text("\n".join(kept).replace("-r ", f"-r {requirements.parent}/"), encoding="utf-8")
    return copy


def _fingerprint(requirements: str) -> str:
    # Metadata of editable installations is written once, with the version of that moment.
    digest = hashlib.sha256(f"{sys.version} {read_version()}".encode())
    files = sorted((ROOT / "requirements").glob("*.txt")) if requirements != "demo.txt" else []
    files += [
        ROOT / "requirements" / requirements,
        *(ROOT / member / "pyproject.toml" for member in _MEMBERS[requirements]),
    ]
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _say(message: str) -> None:
    print(f"[set-up] {message}", file=sys.stderr, flush=True)
