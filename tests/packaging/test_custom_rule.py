"""The example of a rule, installed as a wheel: it takes part in every session, and is switched off by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fresh_environment import build_wheel, make_environment

pytestmark = pytest.mark.packaging

CODE = """
import onnx.parser, ort_py as ort
model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
g (float[2] x) => (float[2] y) <float one = {1}> { a = Abs(x) b = Add(a, one) y = Div(x, b) }''')
for disabled in ([], ["SoftsignFusion"]):
    options = ort.SessionOptions()
    options.disabled_transforms = disabled
    with ort.InferenceSession(model.SerializeToString(), options) as session:
        print([node.op_type for node in session.placement], session.run(None, {"x": [-1.0, 3.0]})[0].tolist())
"""


def test_an_installed_rule_takes_part(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without a line in any program."""
    folder = tmp_path_factory.mktemp("rule")
    environment = make_environment(folder / "env")
    names = ("ort-py-core", "ort-py-array", "ort-py-cpu")
    environment.install(*(wheels[name] for name in names), build_wheel("plugins-example/custom-rule", folder))
    outcome = environment.run(CODE)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.splitlines() == ["['Softsign'] [-0.5, 0.75]", "['Abs', 'Add', 'Div'] [-0.5, 0.75]"]
