"""The example plug-ins: each built as a wheel, all installed side by side, and their tests passing there.

What they do together is looked at too: they share sessions, and one that is used by name only stays out of others.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.fresh_environment import Environment, build_wheel
from tests.support.source_tree import ROOT

pytestmark = pytest.mark.packaging

FOLDERS = sorted(file.parent.name for file in (ROOT / "plugins-example").glob("*/pyproject.toml"))
NEEDS_A_COMPILER = {"native-region"}
NIGHTLY = {"hello-provider"}
"""Examples that other tests install, and put through the kit, too."""

MODEL = """
import json, numpy as np, onnx.parser, ort_py as ort
text = '''<ir_version: 10, opset_import: ["" : 21, "org.example.distance" : 1]>
g (float[N, 4] x) => (float[N, N] y) {
    a = Tanh(x) b = Mul(a, a) c = Exp(b) d = org.example.distance.PairwiseDistance <squared = 1> (c, c) y = Sin(d)
}'''
model = onnx.parser.parse_model(text).SerializeToString()
feed = {"x": np.arange(8, dtype=np.float32).reshape(2, 4) / 8}
options = ort.SessionOptions()
options.add_session_config_entry("session.placement", "order")
found = {}
for name in NAMES:
    with ort.InferenceSession(model, options, providers=name and [name]) as session:
        (y,) = session.run(None, feed)
        found[str(name)] = [session.placement.counts(), y.tolist()]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def examples(tested: Environment, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """All examples, installed from their wheels."""
    root = tmp_path_factory.mktemp("examples")
    wheels = []
    for folder in FOLDERS:
        if folder in NEEDS_A_COMPILER and shutil.which("cc") is None:
            continue
        # Some build backends leave files behind, which are none of the repository's.
        copy = root / folder
        shutil.copytree(ROOT / "plugins-example" / folder, copy, ignore=shutil.ignore_patterns("__pycache__", "build"))
        (root / f"{folder}-wheel").mkdir()
        wheels.append(build_wheel(str(copy), root / f"{folder}-wheel"))
    tested.install(*wheels, "onnxruntime", "opentelemetry-sdk")
    return tested


@pytest.mark.parametrize(
    "folder", [pytest.param(one, marks=pytest.mark.nightly) if one in NIGHTLY else one for one in FOLDERS]
)
def test_its_tests_pass(examples: Environment, folder: str, tmp_path: Path) -> None:
    """Away from the sources, so that it is the installed package that is tested."""
    if folder in NEEDS_A_COMPILER and shutil.which("cc") is None:
        pytest.skip("it is written in C, and this machine has no compiler")
    shutil.copytree(ROOT / "plugins-example" / folder / "tests", tmp_path / "tests")
    # Runs that are observed take longer, and the kit makes thousands.
    kept_out = {} if folder == "observer" else {"ORT_PY_BLOCK_PROVIDERS": "ort-py-observer"}
    outcome = examples.pytest(tmp_path, **kept_out)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_they_share_a_session(examples: Environment) -> None:
    """Providers of all kinds, somebody's operator and its kernel, and an observer of it all, with equal results."""
    names = ["CompilingExecutionProvider", "CPUExecutionProvider", None]
    outcome = examples.run(MODEL.replace("NAMES", repr(names)))
    assert outcome.returncode == 0, outcome.stderr
    found = json.loads(outcome.stdout)
    assert found["CompilingExecutionProvider"][0] == {"CompilingExecutionProvider": 3, "CPUExecutionProvider": 2}
    assert found["CPUExecutionProvider"][0] == {"CPUExecutionProvider": 5}
    results = [[value for row in rows for value in row] for _, rows in found.values()]
    assert all(one == pytest.approx(results[0], abs=1e-5) for one in results)
