"""Graph transforms: the graph computes what it computed, stays valid, comes to rest, and stays as it was elsewhere.

Applied without a session; `onnx.reference` and the CPU provider compute both sides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest

from ort_py.contracts import Level, Transform
from ort_py.tolerances import tolerance_of
from ort_py_kit.graphs import model_from_text, typed_model, written
from ort_py_kit.random_graphs import SeededChoices, narrowest_type, random_feed, random_model
from ort_py_kit.rules import apply_rules, changed_by
from ort_py_kit.samples import Sample
from ort_py_kit.subject import Subject
from ort_py_kit.suites.base import Problem, ProviderChecks, agree, fail, problems_of
from ort_py_kit.suites.threads import on_threads

_NAME = re.compile(r"[A-Za-z][\w.:-]*")
_CPU = Subject("CPUExecutionProvider")


class TransformSuite(ProviderChecks):
    """The conformance tests of transforms: a plug-in's own, or those that a provider wants.

    Attributes:
        transforms: The transforms; those of `provider` where empty.
        models: Models that are changed, by name: text as in `ort_py_kit.graphs.model_from_text`, or messages.
        no_match: Models that look alike and must stay as they are.
        opset: Opset of models that are a graph only.
    """

    transforms: ClassVar[Sequence[Transform]] = ()
    models: ClassVar[Mapping[str, str | onnx.ModelProto]] = {}
    no_match: ClassVar[Mapping[str, str | onnx.ModelProto]] = {}
    opset: ClassVar[int] = 21

    @pytest.fixture
    def rules(self, request: pytest.FixtureRequest) -> Sequence[Transform]:
        if self.transforms:
            return self.transforms
        subject: Subject = request.getfixturevalue("usable")
        provider = subject.create()
        try:
            found = provider.transforms()
        finally:
            provider.close()
        if not found:
            pytest.skip(f"{subject.name} wants no transforms")
        return found

    def test_they_are_named(self, rules: Sequence[Transform]) -> None:
        """Each has a name of its own, by which users switch it off, and a level that exists."""
        names = [rule.name for rule in rules]
        problems = [
            f"{name!r} is not a name of letters, digits and dots" for name in names if not _NAME.fullmatch(name)
        ]
        problems += [
            f"{name!r} names {names.count(name)} transforms" for name in sorted(set(names)) if names.count(name) > 1
        ]
        problems += [f"{rule.name}: level {rule.level!r}" for rule in rules if rule.level not in set(Level)]
        if problems:
            fail("Transforms are not described rightly.", problems, fix="correct `name` and `level`.")

    def test_models_are_changed(self, rules: Sequence[Transform]) -> None:
        """Each model given is changed, and computes the same."""

        def check(sample: Sample) -> None:
            changed, report = apply_rules(sample.model, *rules, expand=True)
            if not changed_by(report, rules):
                raise Problem("no transform changed anything")
            _compare(sample.model, written(changed), sample.feeds())

        self._check(self._given(self.models), check, "do not do what they are for", "correct pattern or replacement.")

    def test_others_stay(self, rules: Sequence[Transform]) -> None:
        """Models that look alike stay as they are."""

        def check(sample: Sample) -> None:
            _, report = apply_rules(sample.model, *rules)
            applied = changed_by(report, rules)
            if applied:
                raise Problem(f"{', '.join(applied)} changed it")

        self._check(self._given(self.no_match), check, "change what must stay", "check what the pattern does not say.")

    def test_they_come_to_rest(self, rules: Sequence[Transform]) -> None:
        """A second run of a transform changes nothing."""

        def check(sample: Sample) -> None:
            once, _ = apply_rules(sample.model, *rules)
            _, report = apply_rules(written(once), *rules)
            again = changed_by(report, rules)
            if again:
                raise Problem(f"{', '.join(again)} finds something in its own result")

        self._check(self._given(self.models), check, "do not come to rest", "do not match what you have written.")

    def test_random_graphs_compute_the_same(self, rules: Sequence[Transform]) -> None:
        """Graphs that were not made for them compute what they computed."""

        def check(sample: Sample) -> None:
            changed, report = apply_rules(sample.model, *rules, expand=True)
            if changed_by(report, rules):
                _compare(sample.model, written(changed), {"x": random_feed()})

        drawn = [Sample(f"seed {seed}", random_model(SeededChoices(seed))) for seed in range(self.graphs)]
        self._check(drawn, check, "change what random graphs compute", "refuse the cases below.")

    def test_they_serve_threads(self, rules: Sequence[Transform]) -> None:
        """One instance serves many sessions at once: the results are the same as alone."""
        samples = self._given(self.models)
        alone = [_written(sample, rules) for sample in samples]

        def work(number: int) -> None:
            for sample, expected in zip(samples, alone, strict=True):
                if _written(sample, rules) != expected:
                    raise Problem(f"thread {number} got another graph for {sample.name}")

        try:
            on_threads(work)
        except Problem as problem:
            fail("Transforms keep state.", [str(problem)], fix="keep what one call finds in local variables.")

    def _given(self, models: Mapping[str, str | onnx.ModelProto]) -> list[Sample]:
        return [
            Sample(name, model_from_text(model, self.opset) if isinstance(model, str) else model)
            for name, model in models.items()
        ]

    def _check(self, samples: Sequence[Sample], check: Any, what: str, fix: str) -> None:
        problems = problems_of(samples, check)
        if problems:
            fail(f"The transforms {what}.", problems, fix=fix)


def _written(sample: Sample, rules: Sequence[Transform]) -> list[str]:
    model, _ = apply_rules(sample.model, *rules)
    return [node.op_type for node in model.graph.nodes]


def _compare(before: onnx.ModelProto, after: onnx.ModelProto, feeds: Mapping[str, Any]) -> None:
    typed_model(after)
    with _CPU.reference(before) as one, _CPU.reference(after) as other, np.errstate(all="ignore"):
        names = [info.name for info in one.get_outputs()]
        expected, actual = one.run(None, dict(feeds)), other.run(None, dict(feeds))
    rtol, atol = tolerance_of(narrowest_type(before))
    for name, left, right in zip(names, actual, expected, strict=True):
        if right.dtype.kind == "f" and left.dtype == right.dtype and left.shape == right.shape:
            if not np.allclose(left, right, rtol=rtol, atol=atol, equal_nan=True):
                raise Problem(f"'{name}' is {np.abs(left - right).max():.3g} away from what it was")
        else:
            agree(left, right, name)
