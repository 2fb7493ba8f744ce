"""Run tests on Linux aarch64, emulated by qemu: `.venv/bin/python scripts/aarch64.py [pytest arguments]`.

It makes what a plain `pip install ort-py` brings on such a machine, in `build/aarch64`: Debian's Python, unpacked
without being installed, the wheels of this repository, and the wheels for aarch64 that pip finds for them. Without
arguments it runs `TESTS`. It needs a Debian, or an Ubuntu, with the package `qemu-user` and with apt's and pip's
indexes; nothing outside `build/` changes. onnxruntime's wheel does not run under qemu, so the tests ask one that runs
on this machine. The times of an emulated run say nothing about a processor.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from default_installations import linux, pip_for
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

FOLDER = ROOT / "build" / "aarch64"
DEBIAN = ("python3", "libstdc++6", "libgomp1")
"""Packages of Debian; apt adds what they depend on."""

DISTRIBUTIONS = ("ort-py", "ort-py-kit")
TESTS = (("providers/xnnpack", "tests/kit/test_xnnpack.py"), MODELS, CORE)
"""What runs without arguments, one process for each row."""

_FORKS = "qemu does not fork processes with threads"
IMPOSSIBLE = {
    "are_quick": "it bounds the time of a processor",
    "eight_threads_run": "NumPy's products in threads raise idle flags, which the test takes for errors",
    "forked": _FORKS,
}
"""Parts of the names of tests that an emulated process cannot run, and why."""

GLIBC = 36
"""Of the Debian that is unpacked, 2.36 or newer."""


def main(arguments: list[str]) -> int:
    """Set everything up and run the tests; returns 0, or pytest's last exit code that is not 0."""
    missing_programs(("qemu-aarch64", "apt-get", "dpkg-deb"), "qemu-user")
    python, site = _python(), FOLDER / "site"
    _packages(python, site)
    fetch_models()
    worst = 0
    starter = _starter(python)
    with _peer() as socket:
        for chosen in [arguments] if arguments else TESTS:
            worst = _pytest(starter, site, socket, chosen) or worst
    return worst


def _python() -> Path:
    """The emulated Python, unpacked if it is not there yet."""
    root, apt = FOLDER / "root", FOLDER / "apt"
    link = root / "usr" / "bin" / "python3"
    if not link.is_symlink():
        for folder in ("lists/partial", "cache/archives/partial"):
            (apt / folder).mkdir(parents=True, exist_ok=True)
        (apt / "status").touch()  # nothing is installed there, so that all dependencies are taken
        settings = {
            "APT::Architecture": "arm64",
            "APT::Architectures::": "arm64",
            "APT::Sandbox::User": "root",
            "Dir::State": apt,
            "Dir::State::status": apt / "status",
            "Dir::Cache": apt / "cache",
        }
        command = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in settings.items())]
        subprocess.run([*command, "update"], check=True, stdout=sys.stderr)
        install = ["install", "--yes", "--download-only", "--no-install-recommends"]
        subprocess.run([*command, *install, *DEBIAN], check=True, stdout=sys.stderr)
        for package in sorted((apt / "cache" / "archives").glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
    return link.resolve()


def _starter(python: Path) -> Path:
    """A program that starts the emulated Python, and that this Python takes for itself when it starts another one."""
    root, starter = FOLDER / "root", FOLDER / "python"
    command = shlex.join(["qemu-aarch64", "-0", str(starter), "-L", str(root), str(python)])
    # Named so, Python does not find its library by itself.
    text = f'#!/bin/sh\nexport PYTHONHOME={shlex.quote(str(root / "usr"))}\nexec {command} "$@"\n'
    starter.write_text(text, encoding="utf-8")
    starter.chmod(0o755)
    return starter


def _packages(python: Path, site: Path) -> None:
    """Install the wheels of this repository as they are now, and what the tests need."""
    wheels = FOLDER / "wheels"
    build_wheels(wheels, "linux-aarch64")
    shutil.rmtree(site, ignore_errors=True)
    system, version = linux("aarch64", GLIBC), python.name.removeprefix("python")
    wish = ["install", "--quiet", "--quiet", "--target", str(site), "--find-links", str(wheels), *DISTRIBUTIONS]
    subprocess.run(pip_for(system, version, *wish, *requirements()), check=True)


@contextlib.contextmanager
def _peer() -> Iterator[str]:
    """The socket of an onnxruntime that runs on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        socket = str(Path(folder) / "peer")
        server = subprocess.Popen([sys.executable, "-m", "tests.support.host_peer", socket], cwd=ROOT)
        try:
            while not Path(socket).exists():
                if server.poll() is not None:
                    raise SystemExit("The process with onnxruntime ended; its messages stand above.")
                time.sleep(0.05)
            yield socket
        finally:
            server.kill()
            server.wait()


def _pytest(starter: Path, site: Path, socket: str, arguments: list[str] | tuple[str, ...]) -> int:
    """Run pytest in the emulated Python; returns its exit code."""
    variables = {"PYTHONPATH": str(site), "ORT_PY_HOST_PEER": socket, "OPENBLAS_NUM_THREADS": "1"}
    variables |= {"LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(starter), *pytest_arguments(["-p", "tests.support.host_peer", *arguments], IMPOSSIBLE)]
    return subprocess.run(command, cwd=ROOT, env=os.environ | variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
