"""One seed of the search with changed model files: load and run a mutant under strict limits.

What may come out is a result or one of ort-py's exceptions, within the limits of time and memory. Runs in a child of a
campaign, which notices signals and silence; address space is bounded, so that what asks for a terabyte fails at once.
"""

from __future__ import annotations

import dataclasses
import random
import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import ort_py
from tests.fuzzing.cases import draw_case
from tests.fuzzing.contradictions import contradict
from tests.fuzzing.mutations import EXTREMES, mutate, mutate_bytes
from tests.fuzzing.runners import requested
from tests.fuzzing.schemas import np_dtype

__all__ = ["MutantSearch"]

ADDRESS_SPACE = 6 << 30
LOAD_SECONDS = RUN_SECONDS = 3.0
GRACE = 1.5
"""Seconds of processor time beyond a limit that are put down to the machine."""
MEMORY_SLACK = 1 << 30
"""Bytes beyond `total_memory_bytes` that the libraries may take."""

_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bfloat16)": "bfloat16",
    **{
        f"tensor({name})": name
        for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
    },
}


@dataclasses.dataclass(slots=True)
class MutantSearch:
    """Changes and runs a model for each seed.

    Attributes:
        say: Called with stages and findings.
        folder: Where files of findings are written; empty for nowhere.
        native: Whether half of the mutants run with limits of time and memory only, which keep native regions.
        providers: Names that the sessions are given; None for the default.
    """

    say: Callable[..., None]
    folder: str = ""
    native: bool = True
    providers: Sequence[str] | None = None
    _suite: list[Any] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from ort_py_kit.backend_cases import suite_cases

            self._suite = [case for case in suite_cases() if case.kind in {"node", "simple", "pytorch-operator"}]
        # Imports and the first compilation do not count.
        self._attempt(draw_case(3).model.SerializeToString(), {}, random.Random(0))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))

    def run(self, seed: int) -> dict[str, int]:
        """Run one mutant; returns what came of it."""
        rng = random.Random(seed)
        model, feeds = self._original(rng, seed)
        roll = rng.random()
        if roll < 0.4:
            data = _bytes(contradict(model, rng)[0])  # what is only a little off gets further
        elif roll < 0.88:
            data = _bytes(mutate(model, rng))
        else:
            data = mutate_bytes(model.SerializeToString(), rng)
        kept = Path(self.folder or tempfile.gettempdir()) / f"mutant-{seed}.onnx"
        if self.folder:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(data)
        outcome, text = self._attempt(data, feeds, rng)
        if text:
            self.say(
                finding=f"{text}; {_operators(data)}",
                kind=outcome,
                who="mutant",
                seed=seed,
                signature=f"{outcome} {' '.join(text.split()[:14])[:120]}",
                code=f"# written to {kept}" if self.folder else "# --folder keeps the file",
            )
        elif self.folder:
            kept.unlink()
        return {outcome: 1}

    def _original(self, rng: random.Random, seed: int) -> tuple[onnx.ModelProto, Mapping[str, Any]]:
        if rng.random() < 0.6:
            case = draw_case(seed, most_nodes=8)
            return case.model, case.feeds[0]
        chosen = rng.choice(self._suite)
        for feeds, _ in chosen.data_sets():
            return chosen.model, feeds
        return chosen.model, {}

    def _attempt(self, data: bytes, feeds: Mapping[str, Any], rng: random.Random) -> tuple[str, str]:
        """Load and run; returns a kind, and what is wrong where something is."""
        options = ort_py.SessionOptions()
        native = self.native and rng.random() < 0.5
        if native:
            options.limits = ort_py.Limits(single_allocation_bytes=512 << 20, total_memory_bytes=2 << 30)
            options.cost_model = "always"
        else:
            options.limits = ort_py.Limits.untrusted()
        options.limits = dataclasses.replace(options.limits, load_seconds=LOAD_SECONDS, run_seconds=RUN_SECONDS)
        options.cache_dir = "off"
        options.intra_op_num_threads = 1
        which = "native" if native else "untrusted"
        before = _reset_peak()
        began, processor = time.monotonic(), time.process_time()
        stage = "load"
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                self.say(stage=f"load ({which})")
                session = ort_py.InferenceSession(data, options, providers=requested(self.providers))
                loaded = time.process_time() - processor
                wall = time.monotonic() - began
                if loaded > LOAD_SECONDS + GRACE and wall > LOAD_SECONDS + GRACE:
                    return "slow", f"{which}: loading took {wall:.1f} s, {loaded:.1f} s of a processor"
                with session:
                    stage = "run"
                    self.say(stage=f"run ({which})")
                    given = _feeds(session, feeds, rng)
                    if given is None:
                        return "not fed", ""
                    began, processor = time.monotonic(), time.process_time()
                    session.run(None, given)
            outcome = "result"
        except ort_py.OrtPyError as error:
            outcome = f"refused at {stage}"
            if not str(error).strip():
                return "untyped", f"{which}: an empty message at {stage}: {error!r}"
        except MemoryError as error:
            return "untyped", f"{which}: MemoryError at {stage}: {str(error)[:200]} {_place(error)}"
        except Exception as error:
            said = " ".join(str(error).split())[:200]
            return "untyped", f"{which}: {type(error).__name__} at {stage}: {said} {_place(error)}"
        took, busy = time.monotonic() - began, time.process_time() - processor
        bound = LOAD_SECONDS if stage == "load" else RUN_SECONDS
        if took > bound + GRACE and busy > bound + GRACE:
            return "slow", f"{which}: {stage} took {took:.1f} s, {busy:.1f} s of a processor"
        peak = _peak() - before
        if peak > (2 << 30) + MEMORY_SLACK:
            return "memory", f"{which}: {stage} took {peak >> 20} MiB"
        return outcome, ""


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})" if trace is not None else ""


def _bytes(model: onnx.ModelProto) -> bytes:
    try:
        return model.SerializeToString()
    except ValueError:  # beyond what protobuf holds
        return b""


def _operators(data: bytes) -> str:
    try:
        return " ".join(node.op_type for node in onnx.load_model_from_string(data).graph.node)[:200]
    except Exception:
        return "no protobuf"


def _feeds(session: Any, feeds: Mapping[str, Any], rng: random.Random) -> dict[str, Any] | None:
    """The original's feeds, or arrays of the declared types. None if these would be too large."""
    numbers = np.random.default_rng(rng.getrandbits(32))
    given: dict[str, Any] = {}
    for info in session.get_inputs():
        known = feeds.get(info.name)
        if known is not None and rng.random() < 0.9:
            given[info.name] = known
            continue
        shape = [size if isinstance(size, int) and size >= 0 else rng.choice((0, 1, 2, 3)) for size in info.shape or ()]
        if info.type not in _TYPES or np.prod([float(size) for size in shape] or [1.0]) > 1e6:
            return None
        dtype = np_dtype(_TYPES[info.type])
        if dtype.kind in "iu" and rng.random() < 0.5:
            with np.errstate(all="ignore"):
                given[info.name] = numbers.choice(np.array(EXTREMES, object), shape).astype(np.int64).astype(dtype)
        else:
            given[info.name] = np.asarray(numbers.standard_normal(shape) * 3).astype(dtype)
    return given


def _reset_peak() -> int:
    """Begin to measure the peak of memory again; returns what is in use now."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:  # not on this system: the peak of all mutants so far
        return 0
    return _peak()


def _peak() -> int:
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0
