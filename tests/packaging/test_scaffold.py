"""The unedited output of `ort-py new`: clean to linter and type checker, built, installed, and passing its own tests.

One environment has a package of each kind, with nothing but wheels in it; names of all lengths are looked at from the
sources.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ort_py_kit.scaffold import KINDS, package_files, package_names, write_package
from tests.support.fresh_environment import Environment, build_wheel

pytestmark = pytest.mark.packaging

WORDS = ("a", "acme-" + "x" * 35)
SOME = [kind if kind == "provider" else pytest.param(kind, marks=pytest.mark.nightly) for kind in KINDS]
"""Kinds for tests that take many seconds each: CI runs that of a provider."""


def _written(kind: str, word: str, folder: Path) -> Path:
    write_package(folder, package_files(kind, package_names(word)))
    return folder


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_linter_has_nothing_to_say(kind: str, word: str, tmp_path: Path) -> None:
    """Neither on style nor on form, however long the name."""
    folder = _written(kind, word, tmp_path / "package")
    for arguments in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--no-cache"]
        outcome = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert outcome.returncode == 0, outcome.stdout


@pytest.mark.parametrize("kind", SOME)
def test_the_type_checker_has_nothing_to_say(kind: str, tmp_path: Path) -> None:
    """In its strict mode, the package's tests included."""
    folder = _written(kind, "acme", tmp_path / "package")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path.parent / "mypy")]
    outcome = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.fixture(scope="module")
def made(tested: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """The folder of a package of each kind, written by the installed command and installed from its wheel."""
    root = tmp_path_factory.mktemp("scaffold")
    folders = {kind: root / f"ort-py-acme-{kind}" for kind in KINDS}
    for kind, folder in folders.items():
        written = tested.script("ort-py", "new", kind, f"acme-{kind}", "--into", str(folder))
        assert written.returncode == 0, written.stderr
        (root / f"{kind}-wheel").mkdir()
        tested.install("--no-deps", build_wheel(str(folder), root / f"{kind}-wheel"))
    yield folders
    tested.uninstall(*(folder.name for folder in folders.values()))


@pytest.mark.parametrize("kind", SOME)
def test_its_tests_pass(tested: Environment, made: dict[str, Path], kind: str) -> None:
    """All kinds are installed side by side; a provider's tests contain the conformance kit."""
    # Runs that are observed take longer, and the kit makes many.
    outcome = tested.pytest(made[kind], ORT_PY_BLOCK_PROVIDERS="ort-py-observer")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "passed" in outcome.stdout


def test_the_provider_is_listed_and_used(tested: Environment, made: dict[str, Path]) -> None:
    """Available by its name, and by rank in sessions that name none."""
    name = "AcmeProviderExecutionProvider"
    assert name in tested.script("ort-py", "providers").stdout
    code = """
import onnx.parser, ort_py as ort
text = '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { a = Relu(x) y = Sin(a) }'
with ort.InferenceSession(onnx.parser.parse_model(text).SerializeToString()) as session:
    print(session.run(None, {"x": [-1.0, 0.0]})[0].tolist(), session.placement.counts())
"""
    outcome = tested.run(code, ORT_PY_ALLOW_PROVIDERS=f"{name},CPUExecutionProvider")
    assert outcome.stdout.strip() == f"[0.0, 0.0] {{'{name}': 1, 'CPUExecutionProvider': 1}}", outcome.stderr
