"""The example provider, built and installed as a wheel: listed, takes its nodes by rank, loses them when blocked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fresh_environment import Environment, build_wheel, make_environment

pytestmark = pytest.mark.packaging

NAME = "HelloExecutionProvider"

# Add and Relu are Hello's; Sigmoid is not.
MODEL = """
import numpy as np, onnx, ort_py as ort
from onnx import TensorProto, helper
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"]) for name in "xy")
nodes = [helper.make_node("Add", ["x", "x"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
         helper.make_node("Sigmoid", ["b"], ["y"])]
graph = helper.make_graph(nodes, "g", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
feed = np.array([-1, 0, 2], np.float32)
expected = 1 / (1 + np.exp(-np.maximum(2 * feed, 0)))
def report(session):
    (result,) = session.run(None, {"x": feed})
    print(np.allclose(result, expected), sorted(session.placement.counts().items()))
"""

BOTH = f"True [('CPUExecutionProvider', 1), ('{NAME}', 2)]"
CPU_ONLY = "True [('CPUExecutionProvider', 3)]"


@pytest.fixture(scope="session")
def with_hello(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Core, CPU provider and the example, each from its wheel."""
    folder = tmp_path_factory.mktemp("hello")
    example = build_wheel("plugins-example/hello-provider", folder)
    environment = make_environment(folder / "env")
    environment.install(*(wheels[name] for name in ("ort-py-core", "ort-py-array", "ort-py-cpu")), example)
    return environment


def _output(environment: Environment, code: str, **variables: str) -> str:
    outcome = environment.run(code, **variables)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout.strip()


def test_it_is_listed(with_hello: Environment) -> None:
    """Installed and available, before the provider that completes."""
    code = "import ort_py; print(ort_py.get_installed_providers(), ort_py.get_available_providers())"
    assert _output(with_hello, code) == f"['CPUExecutionProvider', '{NAME}'] ['{NAME}', 'CPUExecutionProvider']"


def test_the_command_shows_it(with_hello: Environment) -> None:
    """`ort-py providers` names it and its distribution."""
    shown = with_hello.script("ort-py", "providers").stdout
    assert NAME in shown
    assert "ort-py-hello" in shown


def test_it_takes_its_nodes_by_rank(with_hello: Environment) -> None:
    """Left to ort-py, it is asked before the CPU provider, which runs what it refuses."""
    assert _output(with_hello, f"{MODEL}\nreport(ort.InferenceSession(model))") == BOTH


def test_it_takes_its_nodes_by_name(with_hello: Environment) -> None:
    """Asked for alone, the CPU provider still completes."""
    assert _output(with_hello, f"{MODEL}\nreport(ort.InferenceSession(model, providers=['{NAME}']))") == BOTH


def test_it_gets_nothing_where_it_is_not_asked(with_hello: Environment) -> None:
    """An application that names the CPU provider gets no other."""
    code = f"{MODEL}\nreport(ort.InferenceSession(model, providers=['CPUExecutionProvider']))"
    assert _output(with_hello, code) == CPU_ONLY


@pytest.mark.parametrize("blocked", [NAME, "ort-py-hello", f"ort-py-hello:{NAME}"])
def test_it_loses_its_nodes_when_blocked(with_hello: Environment, blocked: str) -> None:
    """By its own name, by its distribution's, or by both: the CPU provider runs everything."""
    code = f"{MODEL}\nreport(ort.InferenceSession(model)); print(ort.get_available_providers())"
    lines = _output(with_hello, code, ORT_PY_BLOCK_PROVIDERS=blocked).splitlines()
    assert lines == [CPU_ONLY, "['CPUExecutionProvider']"]


def test_blocked_and_asked_for_is_a_named_fallback(with_hello: Environment) -> None:
    """The warning and the report say that it is blocked, and which provider runs instead."""
    code = f"""{MODEL}
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    session = ort.InferenceSession(model, providers=["{NAME}", "CPUExecutionProvider"])
print([w.category.__name__ for w in caught], [str(entry) for entry in session.fallback_report])"""
    printed = _output(with_hello, code, ORT_PY_BLOCK_PROVIDERS=NAME)
    assert printed.startswith("['ProviderFallbackWarning']")
    assert "ORT_PY_BLOCK_PROVIDERS" in printed
