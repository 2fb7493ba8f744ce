"""The judgement of a case: nodes that only one provider computes, and providers that alone refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from ort_py_kit.tolerances import tolerance_of
from tests.fuzzing.cases import Case
from tests.fuzzing.compare import Spread, difference, spread_of, tolerance_in
from tests.fuzzing.leniency import forgives, padding_written_out, sizes_by_shapes
from tests.fuzzing.pruning import without_unread
from tests.fuzzing.runners import Outcome, Variant, run_numpy, run_onnxruntime, run_reference, run_variant

__all__ = ["VARIANTS", "Finding", "judge", "run_variant"]

VARIANTS = (
    Variant("all"),
    Variant("off", "ORT_DISABLE_ALL"),
    Variant("basic", "ORT_ENABLE_BASIC"),
    Variant("all, two threads", threads=True),
    Variant("all, bound outputs", bound=True),
    Variant("all, as placed by cost", always=False),
    Variant("all, NumPy alone", plain=True),
)


OPEN_FOR_NAN = frozenset(
    (
        "QuantizeLinear",
        "DynamicQuantizeLinear",
        "Cast",
        "MaxPool",
        "TopK",
        "ArgMax",
        "ArgMin",
        "RoiAlign",
        "DFT",
        "STFT",
    )
)
"""Operators of which the specification does not say what they make of NaN. A fast Fourier transform multiplies it by
fewer zeroes."""

WEIGHTLESS = frozenset(("Resize", "Upsample"))
"""Operators that need not read neighbours whose weight is 0. Where these are NaN or infinite, the element is open."""

ANY_SIZE = "has as many elements whatever stands for -1"
"""What the NumPy provider says of a Reshape of nothing that leaves -1 open. The specification does not say what it is
then; rules take it for what it is for any other size."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that should not be.

    Attributes:
        kind: ``"wrong"``, ``"untyped"``, ``"refuses"``, ``"computes"`` (what others refuse), ``"unsteady"``,
            ``"failed"`` (a provider did, and another took over), or ``"disputed"``.
        who: A variant's name, or ``"numpy"``.
        text: What was seen.
    """

    kind: str
    who: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} ({self.who}): {self.text}"


class Oracles:
    """The other runtimes' results for a case, each computed on demand."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.tolerance = tolerance_in(case.model)
        self._known: dict[str, list[Outcome]] = {}
        self._spreads: dict[int, Spread | None] = {}

    def ask(self, name: str, run: Callable[[Case], list[Outcome]]) -> list[Outcome]:
        """The outcomes of an oracle."""
        if name not in self._known:
            self._known[name] = run(self.case)
        return self._known[name]

    @property
    def onnxruntime(self) -> list[Outcome]:
        """onnxruntime's, unoptimised."""
        return self.ask("onnxruntime", run_onnxruntime)

    @property
    def optimised_onnxruntime(self) -> list[Outcome]:
        """onnxruntime's at its default level, where it leaves out nodes whose values no output needs."""
        return self.ask("optimised onnxruntime", lambda case: run_onnxruntime(sizes_by_shapes(case), optimised=True))

    @property
    def reference(self) -> list[Outcome]:
        """ONNX's reference; it is not asked where sizes are hostile, since it has no limits."""
        if self.case.limited:
            return [Outcome(error=MemoryError("not asked"))] * len(self.case.feeds)
        return self.ask("reference", run_reference)

    def spread(self, run: int) -> Spread | None:
        """The reach of errors in one of the runs."""
        if run not in self._spreads:
            self._spreads[run] = spread_of(self.case, self.case.feeds[run])
        return self._spreads[run]


def judge(
    case: Case,
    variants: Sequence[Variant] = VARIANTS[:2],
    stage: Callable[[str], None] = lambda name: None,
    placed: Callable[[dict[str, int]], None] = lambda placement: None,
) -> list[Finding]:
    """List the problems of a case.

    Args:
        case: The case.
        variants: The ways in which ort-py runs it.
        stage: Called with the next runtime, so that a crash has a name.
        placed: Called with the number of nodes of each provider, for each variant.
    """
    findings: list[Finding] = []
    stage("numpy")
    numpy = run_numpy(case)
    oracles = Oracles(case)
    stage("onnxruntime")
    others = oracles.onnxruntime
    for run, ours in enumerate(numpy.outcomes):
        stage("reference")
        findings += _numpy_against_others(case, oracles, run, ours, others[run])
    findings += [Finding("unsteady", "numpy", text) for text in numpy.troubles]
    for variant in variants:
        stage(variant.name)
        ran = run_variant(case, variant)
        placed(ran.placement)
        stage("comparison")
        for run, outcome in enumerate(ran.outcomes):
            findings += _against_numpy(oracles, run, variant.name, outcome, numpy.outcomes[run])
        findings += [Finding("unsteady", variant.name, text) for text in ran.troubles]
        # A machine that is short of memory for a moment is not a defect of a provider.
        failed = [text for text in ran.failures if "MemoryError" not in text]
        findings += [Finding("failed", variant.name, text) for text in failed]
    return findings


def _numpy_against_others(case: Case, oracles: Oracles, run: int, ours: Outcome, theirs: Outcome) -> list[Finding]:
    if ours.error is not None:
        if not ours.typed:
            return [Finding("untyped", "numpy", f"run {run}: {ours}")]
        if theirs.outputs is None or "KernelNotFound" in type(ours.error).__name__:
            return []
        reference = oracles.reference[run]
        agreed = reference.outputs is not None and not _gap(reference, theirs, None, None)
        if not agreed or forgives(case, run, str(ours.error)):
            return []
        written = padding_written_out(case, run)
        if written is not None and run_onnxruntime(written)[0].outputs is None:
            return [Finding("disputed", "numpy", f"run {run}: {ours}; with its padding written out all refuse")]
        return [Finding("refuses", "numpy", f"run {run}: {ours}")]
    if theirs.outputs is None:
        reference = oracles.reference[run]
        if reference.outputs is None:
            return []
        gap = _gap(ours, reference, oracles, run)
        # The reference alone proves nothing: it has defects of its own.
        return (
            [Finding("disputed", "numpy", f"run {run}: {gap} (by the reference; onnxruntime refuses)")] if gap else []
        )
    gap = _gap(ours, theirs, oracles, run)
    if not gap:
        return []
    reference = oracles.reference[run]
    if reference.outputs is None:
        return [Finding("disputed", "numpy", f"run {run}: {gap} (by onnxruntime; the reference refuses)")]
    if not _gap(ours, reference, oracles, run):
        return []
    if not _is_open(case, run) and not _gap(reference, theirs, oracles, run):
        written = padding_written_out(case, run)
        if written is not None:
            return _numpy_against_others(written, Oracles(written), 0, ours, run_onnxruntime(written)[0])
        return [Finding("wrong", "numpy", f"run {run}: {gap} (onnxruntime and the reference agree)")]
    return [Finding("disputed", "numpy", f"run {run}: {gap} (by onnxruntime; the reference differs from both)")]


def _is_open(case: Case, run: int) -> bool:
    """Whether an operator may read NaN of which the specification does not say what it makes of it."""
    return any(node.op_type in OPEN_FOR_NAN for node in case.model.graph.node) and (
        _reads_nonsense(case, run) or _makes_nonsense(case, run)
    )


def _reads_nonsense(case: Case, run: int) -> bool:
    """Whether NaN or infinities are fed."""
    return any(
        array.dtype.kind in "fV" and not np.isfinite(array.astype(np.float64)).all()
        for array in case.feeds[run].values()
    )


def _makes_nonsense(case: Case, run: int) -> bool:
    """Whether an operator of the main graph that is open for NaN reads some."""
    names = [node.input[0] for node in case.model.graph.node if node.op_type in OPEN_FOR_NAN and node.input]
    shown = onnx.ModelProto()
    shown.CopyFrom(case.model)
    made = {name for node in case.model.graph.node for name in node.output}
    del shown.graph.output[:]
    shown.graph.output.extend([onnx.helper.make_empty_tensor_value_info(name) for name in {*names} & made])
    if not shown.graph.output:
        return False
    (ran,) = run_numpy(replace(case, model=shown, feeds=[case.feeds[run]])).outcomes
    return any(
        np.asarray(one).dtype.kind in "fV" and not np.isfinite(np.asarray(one).astype(np.float64)).all()
        for one in ran.outputs or ()
    )


def _against_numpy(oracles: Oracles, run: int, who: str, outcome: Outcome, numpy: Outcome) -> list[Finding]:
    if outcome.error is not None:
        if not outcome.typed:
            return [Finding("untyped", who, f"run {run}: {outcome}")]
        if numpy.outputs is not None:
            return [Finding("refuses", who, f"run {run}: {outcome}")]
        return []
    if numpy.outputs is None:
        if oracles.onnxruntime[run].outputs is None and ANY_SIZE not in str(numpy.error):
            optimised = oracles.optimised_onnxruntime[run]
            if optimised.outputs is not None and not _gap(outcome, optimised, None, None):
                return []  # a node that only a Shape or a Size reads, for instance, is not run once shapes are known
            if _only_a_shape_is_read(oracles, run, outcome, numpy):
                return []
            return [Finding("computes", who, f"run {run}: {outcome}, while NumPy says {numpy}")]
        return []
    gap = _gap(outcome, numpy, oracles, run)
    if not gap:
        return []
    if any(node.op_type in WEIGHTLESS for node in oracles.case.model.graph.node):
        settled = _where_weights_count(oracles, run, outcome, numpy)
        if settled is not None and not _gap(settled, numpy, oracles, run):
            return [Finding("disputed", who, f"run {run}: {gap}, but only by neighbours whose weight is 0")]
    against = []
    for name in ("onnxruntime", "reference"):
        other = getattr(oracles, name)[run]
        if other.outputs is None:
            continue
        if not _gap(outcome, other, oracles, run):
            return [Finding("disputed", who, f"run {run}: {gap}, but {name} agrees with it")]
        against.append(bool(_gap(numpy, other, oracles, run)))
    if against and all(against):  # no two runtimes agree: mostly what the specification leaves open
        return [Finding("disputed", who, f"run {run}: {gap}, but the oracles differ from NumPy, too")]
    if not against and _is_open(oracles.case, run):
        return [Finding("disputed", who, f"run {run}: {gap}, of NaN, and both oracles refuse")]
    return [Finding("wrong", who, f"run {run}: {gap}")]


def _where_weights_count(oracles: Oracles, run: int, outcome: Outcome, numpy: Outcome) -> Outcome | None:
    """An outcome with NumPy's elements where these depend on neighbours whose weight is 0.

    Such an element is one of which only one oracle says that it is NaN or infinite, or one that is NaN although it is
    the same, but for rounding, whatever finite number is fed instead of NaN and infinities.

    Returns:
        It; None if there are other shapes.
    """
    given = _with_finite_feeds(oracles.case, run)
    if given is None or outcome.outputs is None or numpy.outputs is None:
        return None
    answers = [oracle[run].outputs for oracle in (oracles.onnxruntime, oracles.reference)]
    theirs = [one for one in answers if one is not None]
    settled = []
    for mine, base, *others in zip(outcome.outputs, numpy.outputs, *given, *theirs, strict=True):
        one, known = np.asarray(mine), np.asarray(base)
        if one.dtype.kind in "fV" and one.shape == known.shape:
            kinds = [np.asarray(other).astype(np.float64) for other in others]
            if any(array.shape != one.shape for array in kinds):
                return None
            low, high, *answered = kinds
            wide = one.astype(np.float64)
            open_elements = np.zeros(one.shape, bool)
            if len(answered) == 2:
                first, second = answered
                open_elements |= (np.isnan(first) != np.isnan(second)) | (np.isinf(first) != np.isinf(second))
                open_elements &= ~np.isfinite(wide) | np.isclose(wide, first, 1e-3) | np.isclose(wide, second, 1e-3)
            right = np.isclose(wide, low, *(oracles.tolerance or tolerance_of(one.dtype)))
            open_elements |= np.isnan(known.astype(np.float64)) & (low == high) & right
            one = np.where(open_elements, known, one)
        settled.append(one)
    return Outcome(settled)


def _with_finite_feeds(case: Case, run: int) -> list[list[Any]] | None:
    """NumPy's outputs with a small and with a large number in place of NaN and infinities; None if it refuses them."""
    results = []
    for number in (-3.0, 5.0):
        feeds = {
            name: np.where(np.isfinite(array.astype(np.float64)), array, np.asarray(number, array.dtype))
            if array.dtype.kind in "fV"
            else array
            for name, array in case.feeds[run].items()
        }
        (ran,) = run_numpy(replace(case, feeds=[feeds])).outcomes
        if ran.outputs is None:
            return None
        results.append(ran.outputs)
    return results


def _only_a_shape_is_read(oracles: Oracles, run: int, outcome: Outcome, numpy: Outcome) -> bool:
    """Whether NumPy refuses only nodes of which nothing but the shape is read, and the outputs without them agree.

    The specification says what an operator computes, and not what the shape of something is that cannot be computed.
    So the outputs that follow from such a shape are not judged, and the others must be what they are without it.
    """
    case, refusal = oracles.case, str(numpy.error)
    while (left := without_unread(case.model, refusal)) is not None:
        case = replace(case, model=left, feeds=[_fed(left, oracles.case.feeds[run])])
        if not left.graph.output:
            return True
        (rest,) = run_numpy(case).outcomes
        if rest.outputs is not None:
            names = [one.name for one in oracles.case.model.graph.output]
            kept = [names.index(one.name) for one in left.graph.output]
            assert outcome.outputs is not None
            return not _gap(Outcome([outcome.outputs[place] for place in kept]), rest, Oracles(case), 0)
        refusal = str(rest.error)
    return False


def _fed(model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any]:
    return {one.name: feeds[one.name] for one in model.graph.input if one.name in feeds}


def _gap(left: Outcome, right: Outcome, oracles: Oracles | None, run: int | None) -> str:
    """Describe the difference of two outcomes. Errors are planted into the graph only if the table does not suffice."""
    assert left.outputs is not None
    assert right.outputs is not None
    if len(left.outputs) != len(right.outputs):
        return f"{len(left.outputs)} outputs instead of {len(right.outputs)}"
    for place, (one, other) in enumerate(zip(left.outputs, right.outputs, strict=True)):
        found = difference(one, other, tolerance=oracles.tolerance if oracles is not None else None)
        if found and oracles is not None and run is not None:
            spread = oracles.spread(run)
            if spread is None:
                return f"output {place}: {found}"
            base: Any = _base(oracles, run, place)
            found = difference(one, other, spread, place, base, oracles.tolerance)
        if found:
            return f"output {place}: {found}"
    return ""


def _base(oracles: Oracles, run: int, place: int) -> np.ndarray[Any, Any] | None:
    known = oracles.ask("numpy", lambda case: run_numpy(case).outcomes)[run].outputs
    return known[place] if known is not None else None
