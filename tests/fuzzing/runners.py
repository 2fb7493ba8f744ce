"""Running a case: sessions of ort-py at several levels, the NumPy provider alone, onnxruntime, and ONNX's reference."""

from __future__ import annotations

import threading
import urllib.parse
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.reference

import ort_py
from ort_py_kit.tolerances import assert_close
from tests.fuzzing.cases import Case, Feeds
from tests.fuzzing.reference import CORRECTED

__all__ = ["Outcome", "Ran", "Variant", "requested", "run_numpy", "run_onnxruntime", "run_reference", "run_variant"]


@dataclass(slots=True)
class Outcome:
    """The outcome of one run.

    Attributes:
        outputs: The outputs, or None where it raised.
        error: What it raised, or None.
    """

    outputs: list[Any] | None = None
    error: BaseException | None = None

    @property
    def typed(self) -> bool:
        """Whether what it raised is one of ort-py's exceptions."""
        return isinstance(self.error, ort_py.OrtPyError)

    def __str__(self) -> str:
        if self.error is not None:
            return f"{type(self.error).__name__}: {' '.join(str(self.error).split())[:300]}"
        return f"{[getattr(one, 'shape', one) for one in self.outputs or ()]}"


@dataclass(frozen=True, slots=True)
class Variant:
    """One way of running ort-py.

    Attributes:
        name: For reports.
        level: Optimisation level.
        providers: Names of providers, with options as `requested` reads them; None for the default.
        plain: Whether the CPU role is filled by NumPy only.
        threads: Whether two threads run at once.
        bound: Whether outputs are bound.
    """

    name: str
    level: str = "ORT_ENABLE_ALL"
    providers: tuple[str, ...] | None = None
    plain: bool = False
    threads: bool = False
    bound: bool = False
    always: bool = True


@dataclass(slots=True)
class Ran:
    """Outcomes of the runs of one session, and what the session says about itself.

    Attributes:
        outcomes: One for each run.
        placement: Number of nodes of each provider.
        troubles: What differed when a run was repeated.
        failures: Failures of providers that the session recovered from.
    """

    outcomes: list[Outcome]
    placement: dict[str, int] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def guarded(work: Callable[[], Any]) -> Outcome:
    """Capture the result or the exception of some work, without NumPy's warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return Outcome(outputs=list(work()))
        except Exception as error:
            # The frames of a traceback hold the session, and so the memory that it has got.
            return Outcome(error=error.with_traceback(None))


def requested(providers: Sequence[str] | None) -> list[str | tuple[str, dict[str, str]]] | None:
    """Names such as ``"XnnpackExecutionProvider?claim_small=1"`` as a session takes them; None stays None."""
    if providers is None:
        return None
    parts = [one.partition("?") for one in providers]
    return [(name, dict(urllib.parse.parse_qsl(options))) if options else name for name, _, options in parts]


def options_of(variant: Variant, *, limited: bool = False) -> Any:
    """The session options of a variant."""
    options = ort_py.SessionOptions()
    options.graph_optimization_level = getattr(ort_py.GraphOptimizationLevel, variant.level)
    options.cache_dir = "off"
    options.pin_cpu = variant.plain
    options.intra_op_num_threads = 1
    if limited:
        options.limits = ort_py.Limits(
            single_allocation_bytes=512 << 20, total_memory_bytes=2 << 30, load_seconds=5, run_seconds=5
        )
    if variant.always:
        options.cost_model = "always"
    return options


def run_variant(case: Case, variant: Variant) -> Ran:
    """Each feed of a case, and the first again, in one session of ort-py."""
    made: list[Any] = []

    def opened() -> list[Any]:
        made.append(
            ort_py.InferenceSession(
                case.model.SerializeToString(),
                options_of(variant, limited=case.limited),
                providers=requested(variant.providers),
            )
        )
        return []

    failed = guarded(opened)
    if failed.error is not None:
        return Ran([failed] * len(case.feeds))
    session = made[0]
    with session:
        ran = Ran([_run(session, feeds, variant) for feeds in case.feeds])
        ran.placement = dict(session.placement.counts())
        if session.fallback_report:
            ran.failures = [str(record) for record in session.fallback_report]
            return ran  # whoever answers now may round otherwise
        _again(session, case, variant, ran)
    return ran


def _run(session: Any, feeds: Feeds, variant: Variant) -> Outcome:
    kept = {name: array.copy() for name, array in feeds.items()}
    outcome = guarded(lambda: session.run(None, feeds))
    if any(not same_bits(kept[name], feeds[name]) for name in feeds):
        return Outcome(error=AssertionError("a run wrote into what it was fed"))
    made, outcome = outcome.outputs, _owned(outcome)
    _overwrite(made)
    return outcome


def _overwrite(results: list[Any] | None) -> None:
    """Write into arrays that a run returned. They are the caller's: no later run may see it."""
    for one in results or ():
        if isinstance(one, np.ndarray) and one.dtype != object and one.flags.writeable:
            one[...] = np.ones((), one.dtype)


def _owned(outcome: Outcome) -> Outcome:
    """An outcome whose arrays are copies."""
    if outcome.outputs is not None:
        outcome.outputs = _copied(outcome.outputs)
    return outcome


def _copied(results: list[Any]) -> list[Any]:
    """Copies of arrays: those of onnxruntime hold all the memory that its session has got."""
    return [np.array(one) if isinstance(one, np.ndarray) else one for one in results]


def _again(session: Any, case: Case, variant: Variant, ran: Ran) -> None:
    """Run the first feeds once more, and as the variant says; note what differs in any bit."""
    first = ran.outcomes[0]
    again = _run(session, case.feeds[0], variant)
    if not same_outcome(first, again):
        ran.troubles.append(f"the first feeds gave something else when they were run again: {again}")
    if variant.threads and first.outputs is not None:
        for place, other in enumerate(_at_once(session, case, variant)):
            if not _close(ran.outcomes[place % len(case.feeds)], other):
                ran.troubles.append(f"two threads at once: run {place} gave something else: {other}")
    if variant.bound and first.outputs is not None:
        bound = guarded(lambda: _bound(session, case.feeds[0], first))
        if not same_outcome(first, bound):
            ran.troubles.append(f"bound outputs hold something else: {bound}")


def _close(left: Outcome, right: Outcome) -> bool:
    """Whether two runs agree within the tolerances: runs at the same time may be answered in other ways."""
    if left.outputs is None or right.outputs is None:
        return left.outputs is None and right.outputs is None
    try:
        assert_close(left.outputs, right.outputs)
    except AssertionError:
        return False
    return True


def _at_once(session: Any, case: Case, variant: Variant) -> list[Outcome]:
    found: list[Outcome] = [Outcome() for _ in range(4)]

    def work(place: int) -> None:
        found[place] = _run(session, case.feeds[place % len(case.feeds)], variant)

    workers = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


def _bound(session: Any, feeds: Feeds, first: Outcome) -> list[Any]:
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    kept = []
    for info, output in zip(session.get_outputs(), first.outputs or (), strict=True):
        place = ort_py.OrtValue.ortvalue_from_numpy(np.zeros_like(output))
        kept.append(place)
        binding.bind_ortvalue_output(info.name, place)
    session.run_with_iobinding(binding)
    return [one.numpy() for one in kept]


def same_bits(left: Any, right: Any) -> bool:
    """Whether two arrays are the same in shape, type and every bit but those of NaN."""
    left, right = np.asarray(left), np.asarray(right)
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype == object:
        return bool((left == right).all())
    if left.tobytes() == right.tobytes():
        return True
    if left.dtype.kind in "fV":
        wide_left, wide_right = left.astype(np.float64), right.astype(np.float64)
        signs = np.signbit(wide_left) == np.signbit(wide_right)
        same = (wide_left == wide_right) & signs | np.isnan(wide_left) & np.isnan(wide_right)
        return bool(same.all())
    return False


def same_outcome(left: Outcome, right: Outcome) -> bool:
    """Whether two runs gave the same, or both refused."""
    if left.outputs is None or right.outputs is None:
        return left.outputs is None and right.outputs is None
    return len(left.outputs) == len(right.outputs) and all(
        same_bits(one, other) for one, other in zip(left.outputs, right.outputs, strict=True)
    )


def run_numpy(case: Case) -> Ran:
    """The NumPy provider alone, unoptimised."""
    return run_variant(case, Variant("numpy", "ORT_DISABLE_ALL", ("CPUExecutionProvider",), plain=True))


def run_onnxruntime(case: Case, *, optimised: bool = False) -> list[Outcome]:
    """onnxruntime on the processor."""
    import onnxruntime

    made: list[Any] = []

    def opened() -> list[Any]:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
        model = case.model.SerializeToString()
        made.append(onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]))
        return []

    failed = guarded(opened)
    if failed.error is not None:
        return [failed] * len(case.feeds)
    if "bfloat16" in str([one.type for one in made[0].get_inputs() + made[0].get_outputs()]):
        return [Outcome(error=TypeError("onnxruntime has no bfloat16 in NumPy"))] * len(case.feeds)
    # Results for which there is no memory twice count as refused.
    return [guarded(lambda feeds=feeds: _copied(made[0].run(None, feeds))) for feeds in case.feeds]  # type: ignore[misc]


def run_reference(case: Case, feeds: Sequence[int] | None = None) -> list[Outcome]:
    """ONNX's reference, apart from operators that it computes wrongly."""
    made: list[Any] = []

    def opened() -> list[Any]:
        made.append(onnx.reference.ReferenceEvaluator(case.model, new_ops=list(CORRECTED)))
        return []

    failed = guarded(opened)
    if failed.error is not None:
        return [failed] * len(case.feeds)
    return [guarded(lambda feeds=feeds: made[0].run(None, feeds)) for feeds in case.feeds]  # type: ignore[misc]
