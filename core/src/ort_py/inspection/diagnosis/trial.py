"""A small model with a known answer, run on one provider and those that complete it.

Runs in the process that `child` is. The numbers are whole and small: the answer is exact in every floating type.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from ort_py.api.session import InferenceSession
from ort_py.discovery import get_installed_providers
from ort_py.discovery.records import CPU_ROLE
from ort_py.enums import GraphOptimizationLevel
from ort_py.errors import KernelNotFoundError
from ort_py.inspection.diagnosis.report import TrialRun
from ort_py.options import SessionOptions

SIZE = 256
"""Rows and columns: enough work that providers which leave small things to others take it."""

REPEATS = 5
MODELS = (("MatMul", "Add", "Relu"), ("Relu",), ("Add",), ("MatMul",), ("Mul",), ("Identity",))
"""Operators of each trial model; the next is tried where the provider takes nothing of one."""

_ROWS = (np.arange(SIZE, dtype=np.float32) % 5 - 2)[:, None]
_COLUMNS = (np.arange(SIZE, dtype=np.float32) % 3 + 1)[None, :]


class Refused(Exception):
    """The provider took no node of any trial model."""


def try_provider(name: str, completing: Sequence[str]) -> TrialRun:
    """Run the first trial model of which the provider takes something.

    Args:
        completing: Names of providers that may run the rest.

    Raises:
        Refused: It takes no node, with its reason.
        Exception: Loading, compiling or running failed.
    """
    reasons: dict[str, None] = {}
    for operators in MODELS:
        options = SessionOptions()
        options.cost_model, options.cache_dir = "always", "off"
        options.pin_cpu = True  # completion by another provider would be a test of that one
        options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            session = InferenceSession(_model(operators), options, providers=[name, *completing], enable_fallback=0)
        except KernelNotFoundError as error:
            reasons.update(dict.fromkeys(error.why))
            continue
        bare = name.rpartition(":")[2]
        with session:
            if not session.placement.counts().get(bare):
                reasons.update(dict.fromkeys(_said(session, bare)))
                continue
            return _run(session, operators)
    raise Refused("; ".join(list(reasons)[:3]) or "no reason given")


def _said(session: InferenceSession, name: str) -> Iterator[str]:
    for record in session.fallback_report:
        if record.provider == name:
            yield " ".join(record.reason.split())
    for node in session.placement:
        for provider, reason in node.refusals:
            if provider == name:
                yield f"{node.op_type}: {reason}"


def _run(session: InferenceSession, operators: Sequence[str]) -> TrialRun:
    x = np.ascontiguousarray(np.broadcast_to(_ROWS, (SIZE, SIZE)))
    times: list[float] = []
    for _ in range(1 + REPEATS):
        start = time.perf_counter()
        (y,) = session.run(None, {"x": x})
        times.append((time.perf_counter() - start) * 1e3)
    expected = _answer(operators)
    # A NaN is as wrong as can be, and no maximum would say so.
    error = (
        float(np.max(np.nan_to_num(np.abs(y - expected), nan=np.inf))) if y.shape == expected.shape else float("inf")
    )
    return TrialRun(" → ".join(operators), session.placement.counts(), error, times[0], min(times[1:]))


def _answer(operators: Sequence[str]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """The closed form: each row of x is one number, each column of the weight is one number over SIZE."""
    y = np.broadcast_to(_ROWS, (SIZE, SIZE))
    for operator in operators:
        if operator == "MatMul":
            y = _ROWS * _COLUMNS
        elif operator == "Add":
            y = y + _COLUMNS
        elif operator == "Mul":
            y = y * _COLUMNS
        elif operator == "Relu":
            y = np.maximum(y, 0)
    return y


def _model(operators: Sequence[str]) -> bytes:
    weight = np.ascontiguousarray(np.broadcast_to(_COLUMNS / SIZE, (SIZE, SIZE)), np.float32)
    constants = {"MatMul": ("w", weight), "Add": ("b", _COLUMNS), "Mul": ("b", _COLUMNS)}
    nodes, value = [], "x"
    used: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = {}
    for number, operator in enumerate(operators):
        inputs = [value]
        if operator in constants:
            name, array = constants[operator]
            used[name] = array
            inputs.append(name)
        value = "y" if number + 1 == len(operators) else f"t{number}"
        nodes.append(helper.make_node(operator, inputs, [value], name=operator))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIZE, SIZE]) for name in "xy")
    initializers = [numpy_helper.from_array(array, name) for name, array in used.items()]
    graph = helper.make_graph(nodes, "trial", [x], [y], initializers)
    data: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    return data


def completing_for(name: str) -> list[str]:
    """Providers that may complete another one: the plain CPU provider, if it is installed and is not that provider."""
    bare = name.rpartition(":")[2]
    return [] if bare == CPU_ROLE or CPU_ROLE not in get_installed_providers() else [CPU_ROLE]
