"""`bisect`: which graph transform changed a model's results.

Transforms run in a fixed order: the first ones of them are switched on and the others off, and the place where results
change is searched by halving. `compare` then says where in the model it shows. Comes after `compare`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ort_py.api.session import InferenceSession
from ort_py.engine.recipe import ProviderArgument
from ort_py.enums import GraphOptimizationLevel
from ort_py.errors import InvalidArgument, OrtPyError
from ort_py.inspection.comparison.compare import ModelLike, compare, title_of
from ort_py.inspection.comparison.configuration import LEVELS, Feeds, SessionConfiguration, feeds_of, tolerances_of
from ort_py.inspection.comparison.measuring import Tolerances, deviation
from ort_py.inspection.comparison.report import BisectionReport, ComparedOutput, ComparisonReport, Trial
from ort_py.options import SessionOptions
from ort_py.transforms.report import OptimisationReport, Rewrite

_REWRITES = 20
"""Rewrites in a report, where it is unknown which of them it was."""


def bisect(
    model: ModelLike,
    inputs: Feeds = None,
    *,
    levels: tuple[str | GraphOptimizationLevel, str | GraphOptimizationLevel] = ("disable", "all"),
    providers: ProviderArgument | None = None,
    options: SessionOptions | None = None,
    tolerances: Mapping[str, tuple[float, float]] | None = None,
    seed: int = 0,
    progress: Callable[[Trial], object] | None = None,
) -> BisectionReport:
    """Find the graph transform that changes the outputs of a model, or makes it fail.

    Args:
        model: Path of a model, its bytes, or an ``onnx.ModelProto``.
        inputs: A feed, a list of feeds, or None for generated inputs.
        levels: The optimisation level whose results are expected, and a higher one whose transforms are searched.
        providers: As for a session; the same on both sides.
        tolerances: As for `compare`.
        seed: Seed of generated inputs.

    Raises:
        InvalidArgument: The levels are not two levels with the lower one first, or an input is wrong.
        OrtPyError: The model does not run at the lower level.
    """
    low, high = _levels(levels)
    base = SessionConfiguration(options, providers)
    table = tolerances_of(tolerances)
    with base.at(low).open(model) as session:
        feeds = feeds_of(inputs, session.get_inputs(), seed)
        names = [output.name for output in session.get_outputs()]
        expected = [session.run(None, feed) for feed in feeds]
        searched = _searched(session, low, high)
    search = _Search(model, base, high, feeds, names, expected, table, progress)
    report = BisectionReport(title_of(model), str(base.at(high)), (low.name, high.name), search.trials)
    whole, _ = search.trial((), "all transforms")
    if whole.agrees:
        return report
    candidates = list(searched)
    report.candidates = len(candidates)
    report.failure, report.outputs = whole.failure, list(whole.outputs)
    if not search.trial(candidates, "none of them")[0].agrees:
        report.note = "the results differ even without all of these transforms, so none of them is the cause"
        return report
    good, bad = 0, len(candidates)
    while bad - good > 1:
        middle = (good + bad) // 2
        if search.trial(candidates[middle:], f"the first {middle} of {len(candidates)}")[0].agrees:
            good = middle
        else:
            bad = middle
    _convict(report, search, candidates, bad - 1, tolerances)
    report.level = searched[candidates[bad - 1]]
    return report


def _searched(session: InferenceSession, low: GraphOptimizationLevel, high: GraphOptimizationLevel) -> dict[str, int]:
    """The level of each transform that runs at the higher level only, by name, in the order in which they run."""
    from ort_py.engine.preparation import transforms_of

    transforms = transforms_of(session.engine.providers.contributions, session.engine.providers.in_use)
    found = [one for one in transforms if int(low) < one.level <= int(high)]
    return {one.name: int(one.level) for one in sorted(found, key=lambda one: one.level)}


def _convict(
    report: BisectionReport,
    search: _Search,
    candidates: list[str],
    index: int,
    tolerances: Mapping[str, tuple[float, float]] | None,
) -> None:
    """Say what there is to say about the transform with which results change."""
    culprit = report.culprit = candidates[index]
    others = [name for name in candidates if name != culprit]
    report.alone = not search.trial(others, f"only {culprit}")[0].agrees
    report.needed = search.trial([culprit], f"all but {culprit}")[0].agrees
    # Where it does it alone, that is the smallest change there is; else it needs what runs before it.
    without, with_it = (candidates, others) if report.alone else (candidates[index:], candidates[index + 1 :])
    trial, done = search.trial(with_it, "")  # as it went before
    rewrites = [] if done is None else done[culprit].rewrites
    report.rewrites = rewrites[:_REWRITES]
    if trial.failure:
        return
    number = next(one.run for one in trial.outputs)
    report.comparison = compare(
        search.model,
        a=search.base.at(search.high, without),
        b=search.base.at(search.high, with_it),
        inputs=search.feeds[number],
        tolerances=tolerances,
    )
    report.rewrites = _suspects(rewrites, report.comparison, culprit)[:_REWRITES]


def _suspects(rewrites: Sequence[Rewrite], comparison: ComparisonReport, culprit: str) -> list[Rewrite]:
    """The rewrites that concern the first difference; all where none does."""
    first = comparison.first
    if first is None:
        return list(rewrites)
    made = {node.name for node in first.nodes if node.made_by == culprit}
    gone = {node.name for node in first.reference_nodes} | {name for node in first.nodes for name in node.sources}
    found = [one for one in rewrites if made.intersection(one.after)]
    return found or [one for one in rewrites if gone.intersection(one.before)] or list(rewrites)


class _Search:
    """Sessions with some transforms switched off, and whether they compute what is expected."""

    def __init__(
        self,
        model: ModelLike,
        base: SessionConfiguration,
        high: GraphOptimizationLevel,
        feeds: list[Mapping[str, Any]],
        names: list[str],
        expected: list[list[Any]],
        tolerances: Tolerances,
        progress: Callable[[Trial], object] | None,
    ) -> None:
        self.model, self.base, self.high, self.feeds = model, base, high, feeds
        self.trials: list[Trial] = []
        self._names, self._expected = names, expected
        self._tolerances = tolerances
        self._progress = progress
        self._tried: dict[tuple[str, ...], tuple[Trial, OptimisationReport | None]] = {}

    def trial(self, disabled: Sequence[str], enabled: str) -> tuple[Trial, OptimisationReport | None]:
        """Run the model without some transforms.

        Args:
            enabled: The remaining transforms in words, where they were not tried before.

        Returns:
            The result, and the report of the transforms; None if no session could be created.
        """
        key = tuple(disabled)
        if key in self._tried:
            return self._tried[key]
        done: OptimisationReport | None = None
        outputs: list[ComparedOutput] = []
        failure = ""
        try:
            with self.base.at(self.high, disabled).open(self.model) as session:
                done = session.load_report.optimisation
                for number, feed in enumerate(self.feeds):
                    for name, left, right in zip(
                        self._names, self._expected[number], session.run(None, feed), strict=True
                    ):
                        apart = deviation(left, right, self._tolerances)
                        outputs += [] if apart.agrees else [ComparedOutput(number, name, apart)]
        except OrtPyError as error:  # it ran at the lower level: that it fails is a result of the transforms too
            failure = f"{type(error).__name__}: {error}"
        trial = Trial(enabled, not outputs and not failure, tuple(outputs), failure)
        self.trials.append(trial)
        if self._progress is not None:
            self._progress(trial)
        self._tried[key] = (trial, done)
        return trial, done


def _levels(given: Any) -> tuple[GraphOptimizationLevel, GraphOptimizationLevel]:
    try:
        low, high = (LEVELS[one] if isinstance(one, str) else GraphOptimizationLevel(one) for one in given)
    except (TypeError, ValueError, KeyError):
        low = high = GraphOptimizationLevel.ORT_DISABLE_ALL
    if low >= high:
        raise InvalidArgument(
            f"levels={given!r} must be two optimisation levels, the lower one first.",
            why=f"the levels are, from low to high, {', '.join(LEVELS)}",
            fix='Pass e.g. levels=("disable", "all").',
        )
    return low, high
