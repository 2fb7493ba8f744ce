"""Measuring providers: what a call, arithmetic, bytes and copies take on this machine, by sessions of tiny models.

Run by ``ort-py tune --calibrate``, never by itself. Each figure is a difference of two chains, a short and a long one,
so that what a session takes anyway cancels out. `calibration_store` keeps the results; placements are priced with them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ort_py.api.session import InferenceSession
from ort_py.devices import HOST, Device
from ort_py.discovery import CPU_ROLE, get_available_providers
from ort_py.engine.calibration_store import write_rates
from ort_py.engine.session_cache import MODEL_CACHE_KEY, open_store
from ort_py.engine.tuned_placement import IN_ORDER, PLACEMENT_KEY
from ort_py.enums import GraphOptimizationLevel
from ort_py.errors import InvalidArgument, OrtPyError
from ort_py.lazy_dataclass import dataclass
from ort_py.options import SessionOptions
from ort_py.partition.rates import DEVICE_RATES, HOST_RATES, Rates

_LONG = 9
"""Nodes of the long chain; the short one has one."""

_WIDE = 1 << 20
"""Elements of what is copied and added: larger than caches."""

_SIDE = 384
"""Side of the matrices whose product shows the speed of arithmetic."""

_TINY = 4


@dataclass(frozen=True, slots=True)
class CalibratedProvider:
    """Measurements of one provider.

    Attributes:
        provider: Its name.
        rates: The figures, None where it could not be measured.
        remembered: Whether sessions will use them.
        remark: Why not.
    """

    provider: str
    rates: Rates | None
    remembered: bool = False
    remark: str = ""

    def figures(self) -> tuple[str, ...]:
        """Calls, nodes, arithmetic, bytes and copies as texts, in µs and billions a second."""
        rates = self.rates
        if rates is None:
            return ("-",) * 6
        copies = ("-", "-") if rates.copy_us == 0 else (f"{rates.copy_us:.1f}", f"{rates.copy_bytes_per_us / 1e3:.1f}")
        arithmetic = (f"{rates.flops_per_us / 1e3:.1f}", f"{rates.bytes_per_us / 1e3:.1f}")
        return (f"{rates.launch_us:.2f}", f"{rates.node_us:.2f}", *arithmetic, *copies)

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        figures = None if self.rates is None else self.rates.to_json()
        return {"provider": self.provider, "rates": figures, "remembered": self.remembered, "remark": self.remark}


def calibrate(
    providers: Sequence[str] | None = None,
    *,
    threads: int = 0,
    seconds: float = 10.0,
    remember: bool = True,
    progress: Callable[[str], None] | None = None,
) -> list[CalibratedProvider]:
    """Measure providers and remember the figures for all sessions with as many threads on this machine.

    Args:
        providers: Their names; all that are usable where None.
        threads: Threads of a run, as `SessionOptions.intra_op_num_threads`.
        seconds: About how long to measure, all providers together.
        remember: Whether the figures are kept.
        progress: Called with a description of each activity.

    Raises:
        InvalidArgument: `seconds` is not positive.
    """
    if not seconds > 0:
        raise InvalidArgument(
            f"calibrate() was asked to measure for {seconds!r} seconds.", fix="Pass a positive number, e.g. 10."
        )
    names = list(dict.fromkeys(providers if providers is not None else get_available_providers()))
    found: list[CalibratedProvider] = []
    for name in names:
        if progress is not None:
            progress(f"measuring {name}")
        try:
            found.append(_Bench(name, threads, seconds / len(names)).measured(remember=remember))
        except OrtPyError as error:  # of one provider: the others are measured all the same
            found.append(CalibratedProvider(name, None, remark=f"{type(error).__name__}: {error.what}"))
    return found


class _Bench:
    def __init__(self, name: str, threads: int, seconds: float) -> None:
        self._name = name
        self._seconds = seconds / 6
        self._options = SessionOptions()
        self._options.intra_op_num_threads = threads
        self._options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
        self._options.cost_model = "always"
        self._options.pin_cpu = True
        self._options.verify = 0.0
        self._options.add_session_config_entry(MODEL_CACHE_KEY, "0")
        self._options.add_session_config_entry(PLACEMENT_KEY, IN_ORDER)
        self._device: Device = HOST
        self._save: Callable[[Rates], bool] = _nowhere
        self._compiles = False

    def measured(self, *, remember: bool) -> CalibratedProvider:
        """All figures of the provider."""
        tiny = self._chains("MatMul", (_TINY, _TINY))
        product = self._chains("MatMul", (_SIDE, _SIDE))
        wide = self._chains("Add", (_WIDE,))
        if tiny is None or product is None:
            return CalibratedProvider(self._name, None, remark="it cannot run a single MatMul of float32")
        rates = self._rates(tiny, product, wide)
        if not remember:
            return CalibratedProvider(self._name, rates, remark="as was asked")
        kept = self._save(rates)
        return CalibratedProvider(self._name, rates, kept, "" if kept else "the cache is off, or cannot be written")

    def _rates(
        self, tiny: tuple[float, float], product: tuple[float, float], wide: tuple[float, float] | None
    ) -> Rates:
        found = HOST_RATES if self._device == HOST else DEVICE_RATES
        node = max(_slope(tiny), 0.01)
        copies = 0.0
        if self._device != HOST:
            # Two inputs and one output cross; what is left of a tiny run is their latency, and a call.
            copies = max(tiny[0] - node, 0.1) / 3
        # The first node of a region is called through a session: what that takes besides copies is the call.
        launch = max(tiny[0] - 3 * copies, node) if self._compiles else node
        flops = 2.0 * _SIDE**3 / max(_slope(product) - node, 0.1)
        found = replace(found, launch_us=launch, node_us=node, flops_per_us=flops, copy_us=copies, measured=True)
        if wide is not None:
            nbytes = 4.0 * _WIDE
            found = replace(found, bytes_per_us=3 * nbytes / max(_slope(wide) - node, 0.1))
            if self._device != HOST:
                moving = max(wide[0] - _slope(wide) - 3 * copies, 0.1)
                found = replace(found, copy_bytes_per_us=3 * nbytes / moving)
        return found

    def _chains(self, operator: str, shape: tuple[int, ...]) -> tuple[float, float] | None:
        """Microseconds of a run of the short chain and of the long one; None where the provider does not run them."""
        rng = np.random.default_rng(0)
        feeds = {name: rng.random(shape, dtype=np.float32) for name in ("x", "b")}
        times = [self._time(_chain(operator, shape, length), feeds) for length in (1, _LONG)]
        return None if None in times else (float(times[0] or 0.0), float(times[1] or 0.0))

    def _time(self, model: Any, feeds: Mapping[str, Any]) -> float | None:
        with InferenceSession(model, self._options, list(dict.fromkeys([self._name, CPU_ROLE]))) as session:
            placed = list(session.placement)
            if any(one.provider != self._name for one in placed):
                return None
            self._compiles = any(one.region for one in placed)
            self._note_provider(session)
            return _fastest(session, feeds, self._seconds) * 1e6

    def _note_provider(self, session: InferenceSession) -> None:
        engine = session.engine
        record = next(one for one in engine.providers.records if one.name == self._name)
        provider = next(one for one in engine.providers.created if one.name == self._name)
        store, threads = open_store(self._options), engine.threads.count
        self._device = provider.device
        if store is not None:
            self._save = lambda rates: write_rates(store, record, provider, threads, rates)


def _nowhere(rates: Rates) -> bool:
    """Explain that there is no cache to keep the rates in."""
    return False


def _slope(times: tuple[float, float]) -> float:
    return (times[1] - times[0]) / (_LONG - 1)


def _fastest(session: InferenceSession, feeds: Mapping[str, Any], seconds: float) -> float:
    session.run(None, feeds)
    until, best = time.perf_counter() + seconds, float("inf")
    while True:
        start = time.perf_counter()
        session.run(None, feeds)
        now = time.perf_counter()
        best = min(best, now - start)
        if now > until:
            return best


def _chain(operator: str, shape: tuple[int, ...], length: int) -> Any:
    from onnx import TensorProto, helper

    names = ["x", *(f"v{number}" for number in range(length))]
    nodes = [helper.make_node(operator, [left, "b"], [right]) for left, right in itertools.pairwise(names)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "b", names[-1])]
    graph = helper.make_graph(nodes, "chain", values[:2], values[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
