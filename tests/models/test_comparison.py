"""`compare` and `bisect` on trained models: levels agree value by value, and a wrong rule is found in a large model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

import ort_py as ort
from examples.model_zoo import by_name, fetch
from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, RewriteRule, Transform, TransformContext
from ort_py.discovery import default_catalog
from ort_py.hooks import hookimpl
from tests.support.model_inputs import cases_of

pytestmark = pytest.mark.models

CPU = ["CPUExecutionProvider"]
MODELS = ("light-resnet50", "light-squeezenet", "minilm-int8", "ppocr-v4-rec", "silero-vad", "slanet-plus", "magika")


@pytest.mark.parametrize("name", MODELS)
def test_levels_agree_value_by_value(name: str) -> None:
    """Each step of the optimised model computes what the model says from the same inputs.

    That holds also where the outputs themselves do not agree because errors are carried on (`LOOSER`).
    """
    model = by_name(name)
    report = ort.compare(
        fetch(model),
        a=ort.SessionConfiguration(_options("ORT_DISABLE_ALL"), CPU),
        b=ort.SessionConfiguration(_options("ORT_ENABLE_ALL"), CPU),
        inputs=cases_of(model)[0].runs[0],
    )
    assert report.first is None, str(report)
    assert report.compared > 0
    assert report.unmatched < report.steps / 2


def _options(level: str) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel[level]
    return options


class WrongRelu(RewriteRule):
    """Replaces one Relu of many by something that is near it."""

    @property
    def name(self) -> str:
        return "WrongRelu"

    @property
    def op_types(self) -> frozenset[str]:
        return frozenset({"Relu"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        read, written = node.inputs[0], node.outputs[0]
        if read is None or written is None or written.name != "relu_1.tmp_0":
            return False
        graph.replace_nodes([node], [NodeTemplate("Softplus", (read.name,), (written.name,))])
        return True


class Plugin:
    """Contributes the rule."""

    @hookimpl
    def ort_py_transforms(self) -> Sequence[Transform]:
        """Contribute it."""
        return [WrongRelu()]


@pytest.fixture
def wrong_rule() -> Iterator[None]:
    """The rule runs for the duration of the test."""
    hooks = default_catalog().hooks
    hooks.register(Plugin(), "wrong-rule")
    yield
    hooks.unregister("wrong-rule")


@pytest.mark.usefixtures("wrong_rule", "cpu_runner")
@pytest.mark.parametrize("cpu_runner", ["plain"], indirect=True)  # of a compiled region only the border is seen
def test_a_wrong_rule_is_found_in_a_large_model() -> None:
    """The rule, the one node of 830 that it rewrote, and the value at which results change."""
    model = by_name("slanet-plus")
    report = ort.bisect(fetch(model), cases_of(model)[0].runs[0], providers=CPU)
    assert (report.culprit, report.alone, report.needed) == ("WrongRelu", True, True)
    assert [rewrite.before for rewrite in report.rewrites] == [("Relu.1",)]
    assert report.comparison is not None
    assert report.comparison.first is not None
    assert report.comparison.first.value == "relu_1.tmp_0"
    assert report.comparison.first.node.made_by == "WrongRelu"
