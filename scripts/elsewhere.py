"""The common parts of the scripts that run tests on systems which this machine emulates.

They set up wheels for another system and models, and choose tests. Nothing here knows an emulator, nor which system is
emulated.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from workspace import ROOT, distributions

__all__ = [
    "CORE",
    "MODELS",
    "build_wheels",
    "fetch_models",
    "missing_programs",
    "pytest_arguments",
    "requirements",
]

LIBRARIES = frozenset({"ml_dtypes", "numpy", "onnx", "pluggy", "google-re2", "cffi", "hypothesis", "pillow", "pytest"})
"""Requirements of `requirements/` that the tests import, beside pytest's plug-ins."""

MODELS = (
    "tests/models/test_model_parity.py",
    "-k",
    "silero or magika or minilm or mtcnn or wakeword or pitch or ppocr-v4-cls or ppocr-v4-rec or gpt2",
)
CORE = ("core/tests/graph", "core/tests/memory", "core/tests/execution", "core/tests/cache")
"""Arguments of pytest that run tests which matter on any system: small trained models, and the core."""

_FETCH = "from examples.model_zoo import CATALOGUE, fetch\nfor model in CATALOGUE: fetch(model)"


def missing_programs(programs: Collection[str], packages: str) -> None:
    """Refuse to go on without programs.

    Args:
        programs: Their names.
        packages: Packages of Debian that bring them.

    Raises:
        SystemExit: One of them is not on PATH.
    """
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        raise SystemExit(f"Not on PATH: {', '.join(missing)}. `apt-get install {packages}` on a Debian brings them.")


def build_wheels(folder: Path, platform: str) -> None:
    """Build the wheels of this repository as they are now, for another system where they have files for it.

    Args:
        folder: Where they go; what is there already is removed.
        platform: The system, as the table of platforms in a pyproject.toml spells it.
    """
    shutil.rmtree(folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    for one in distributions():
        chosen = {name: platform for name, values in one.platforms.items() if platform in values}
        if one.platforms.keys() == chosen.keys():
            command = [*pip, "--wheel-dir", str(folder), str(ROOT / one.folder)]
            subprocess.run(command, check=True, env=os.environ | chosen)


def requirements(*more: str) -> list[str]:
    """Requirements of the tests, at the versions of `requirements/`.

    Args:
        more: Names of some that not every system has.
    """
    files = ("demo.txt", "dev.txt")
    lines = [line for one in files for line in (ROOT / "requirements" / one).read_text(encoding="utf-8").splitlines()]
    pinned = {line.partition("==")[0]: line.partition(" ")[0] for line in lines}
    return [pin for name, pin in pinned.items() if name in LIBRARIES.union(more) or name.startswith("pytest-")]


def fetch_models() -> None:
    """Get the trained models, so that the emulated process finds them."""
    subprocess.run([sys.executable, "-c", _FETCH], cwd=ROOT, check=True)


def pytest_arguments(arguments: Collection[str], impossible: Collection[str]) -> list[str]:
    """Arguments behind the name of an interpreter that run tests.

    Args:
        arguments: The tests, as one would write them for pytest.
        impossible: Parts of the names of tests that are left out.
    """
    given, chosen = list(arguments), [f"not {name}" for name in impossible]
    if "-k" in given:
        at = given.index("-k")
        chosen.insert(0, f"({given[at + 1]})")
        del given[at : at + 2]
    own = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not gpu and not nightly", *given]
    return [*own, "-k", " and ".join(chosen)] if chosen else own
