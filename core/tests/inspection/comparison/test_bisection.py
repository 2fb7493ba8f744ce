"""Finding the graph transform that changes results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

import ort_py
from core.tests.inspection.comparison.wrong_kernels import CPU, wrong_provider
from core.tests.small_models import model_bytes
from ort_py.contracts import Level, Match, NodeTemplate, Op, PatternRule, Transform, TransformContext
from ort_py.discovery import default_catalog
from ort_py.hooks import hookimpl

TEXT = """g (float[4] x) => (float[4] y) {
    same = Identity(x) ["cut"] a = Relu(same) b = Tanh(a) c = Neg(b) ["last"] y = Abs(c)
}"""
X = {"x": np.array([-2, -1, 1, 2], np.float32)}


class Replaces(PatternRule):
    """A rule that puts one operator in the place of another, right or wrong."""

    level = Level.EXTENDED
    pair: ClassVar[tuple[str, str]]

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        return NodeTemplate(self.pair[1], (match.name("x"),), (match.result,))


class WrongRelu(Replaces):
    """Is not what Relu computes."""

    name = "WrongRelu"
    patterns: ClassVar[Sequence[Op]] = (Op("Relu", "x"),)
    pair = ("Relu", "Abs")


class Harmless(Replaces):
    """Tanh is odd, and Abs follows, so the sign has no effect."""

    name = "Harmless"
    patterns: ClassVar[Sequence[Op]] = (Op("Neg", "x"),)
    pair = ("Neg", "Sin")


class WrongSin(Replaces):
    """Wrong only for what the rule before it makes."""

    name = "WrongSin"
    patterns: ClassVar[Sequence[Op]] = (Op("Sin", "x"),)
    pair = ("Sin", "Exp")


class Failing(Replaces):
    """Makes a node that fails on its inputs."""

    name = "Failing"
    patterns: ClassVar[Sequence[Op]] = (Op("Relu", "x"),)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        raise RuntimeError("a mistake in the rule")


class Plugin:
    """Contributes transforms."""

    def __init__(self, *transforms: Transform) -> None:
        self._transforms = transforms

    @hookimpl
    def ort_py_transforms(self) -> list[Transform]:
        """Contribute them."""
        return list(self._transforms)


@pytest.fixture
def contribute() -> Iterator[Callable[..., None]]:
    """Let a plug-in contribute transforms for the duration of the test."""
    hooks = default_catalog().hooks

    def add(*transforms: Transform) -> None:
        hooks.register(Plugin(*transforms), "wrong-rules")

    yield add
    if "wrong-rules" in hooks.plugins():
        hooks.unregister("wrong-rules")


def bisect(**arguments: Any) -> ort_py.BisectionReport:
    """Bisect on the CPU provider."""
    return ort_py.bisect(model_bytes(TEXT), **{"inputs": X, "providers": [CPU], **arguments})


def test_nothing_to_find() -> None:
    """Levels that agree need two sessions."""
    report = bisect()
    assert (report.equal, report.culprit, len(report.trials)) == (True, None, 1)
    assert "the results are equal within the tolerance" in str(report)


def test_a_wrong_rule_is_named(contribute: Callable[..., None]) -> None:
    """With what it rewrote, and the first value that shows it."""
    contribute(WrongRelu())
    report = bisect()
    assert (report.culprit, report.level, report.alone, report.needed) == ("WrongRelu", 2, True, True)
    (rewrite,) = report.rewrites
    assert rewrite.before == ("cut",)
    assert report.comparison is not None
    assert report.comparison.first is not None
    assert (report.comparison.first.value, report.comparison.first.node.made_by) == ("a", "WrongRelu")
    assert [output.name for output in report.outputs] == ["y"]
    assert "SessionOptions.disabled_transforms = ['WrongRelu']" in str(report)


def test_few_sessions_are_tried(contribute: Callable[..., None]) -> None:
    """Their number grows with the logarithm of that of transforms."""
    contribute(WrongRelu())
    told: list[Any] = []
    report = bisect(progress=told.append)
    assert report.candidates > 10
    assert len(report.trials) <= 4 + np.ceil(np.log2(report.candidates))
    assert told == report.trials


def test_a_rule_that_needs_another(contribute: Callable[..., None]) -> None:
    """The later one is named, as one that does it not alone."""

    class Half(Harmless):
        """Neg becomes Sin, which is different as well, but not here: what it reads is zero."""

    contribute(Half(), WrongSin())
    report = bisect(inputs={"x": np.zeros(4, np.float32)})
    assert (report.culprit, report.alone, report.needed) == ("WrongSin", False, True)
    assert "only together with the transforms before it" in str(report)


def test_two_wrong_rules(contribute: Callable[..., None]) -> None:
    """One is named, and that switching it off is not enough."""

    class WrongTanh(Replaces):
        """Wrong too."""

        name = "WrongTanh"
        patterns: ClassVar[Sequence[Op]] = (Op("Tanh", "x"),)
        pair = ("Tanh", "Exp")

    contribute(WrongRelu(), WrongTanh())
    report = bisect()
    assert (report.culprit in ("WrongRelu", "WrongTanh"), report.alone, report.needed) == (True, True, False)
    assert "turning it off is not enough" in str(report)


def test_a_rule_with_which_the_model_fails(contribute: Callable[..., None]) -> None:
    """Is found like one that changes results; there is nothing to compare then."""
    contribute(Failing())
    report = bisect()
    assert (report.culprit, report.level, report.comparison) == ("Failing", 2, None)
    assert "a mistake in the rule" in report.failure
    assert "with all transforms it fails" in str(report)


def test_levels_in_between(contribute: Callable[..., None]) -> None:
    """Transforms of the lower level run on both sides."""
    contribute(WrongRelu())
    assert bisect(levels=("disable", "basic")).equal
    report = bisect(levels=("basic", ort_py.GraphOptimizationLevel.ORT_ENABLE_EXTENDED))
    assert report.culprit == "WrongRelu"


@pytest.mark.parametrize("levels", [("all", "disable"), ("basic", "basic"), ("basic",), "basic", ("basic", "most"), 3])
def test_levels_that_are_none(levels: Any) -> None:
    with pytest.raises(ort_py.InvalidArgument, match="must be two optimisation levels, the lower one first"):
        bisect(levels=levels)


@pytest.mark.usefixtures("register")
def test_a_difference_that_no_transform_makes() -> None:
    """A kernel that computes something else every time is none of the transforms."""
    counts = iter(range(1000))
    providers = wrong_provider("Tanh", lambda xp, x: xp.tanh(x) + x.dtype.type(next(counts)))
    report = bisect(providers=providers)
    assert (report.culprit, report.equal) == (None, False)
    assert "none of them is the cause" in str(report)


def test_the_report_is_plain_data(contribute: Callable[..., None]) -> None:
    """All of it goes into JSON."""
    contribute(WrongRelu())
    data = json.loads(json.dumps(bisect().to_dict()))
    assert data["culprit"] == "WrongRelu"
    assert data["comparison"]["differences"][0]["value"] == "a"
    assert data["rewrites"][0]["before"] == ["cut"]
