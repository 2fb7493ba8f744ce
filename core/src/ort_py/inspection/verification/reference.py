"""The engine that repeats runs: the same model on the plain NumPy provider, not optimised, on one thread.

It shares its weights with the session through the process's store.
"""

from __future__ import annotations

from dataclasses import replace

from ort_py.discovery import CPU_ROLE
from ort_py.dtypes import DataType
from ort_py.engine.engine import Engine
from ort_py.engine.opening import open_again
from ort_py.engine.provider_choice import NO_CPU
from ort_py.enums import ExecutionMode, GraphOptimizationLevel
from ort_py.inspection.comparison.engines import examining_options
from ort_py.inspection.comparison.forcing import drawn_values
from ort_py.inspection.comparison.measuring import Tolerances
from ort_py.options import SessionOptions, entry_of
from ort_py.tolerances import TOLERANCES

SLOWER = 10.0
"""Times as long as a run of the session that its repetition may take, where `Limits.run_seconds` is set."""

_OFF = (NO_CPU, "ep.context_enable", "session.fast_math")
"""Config entries that would forbid the NumPy provider, write files, or change results."""


def open_reference(engine: Engine) -> Engine:
    """Open the engine that repeats the runs of another one.

    Raises:
        InvalidArgument: The model was not kept, or its file is another one now.
        OrtPyError: The NumPy provider cannot run the model.
    """
    options = reference_options(engine.options)
    return open_again(engine, "The model cannot be loaded again.", options, [CPU_ROLE], None)


def reference_options(options: SessionOptions) -> SessionOptions:
    """Options with which the NumPy provider computes results that can be trusted."""
    plain = examining_options(options)
    plain.pin_cpu = True
    plain.strict = ""
    plain.precision = "float32"
    plain.fast_math = False
    plain.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    plain.execution_mode = ExecutionMode.ORT_SEQUENTIAL
    plain.intra_op_num_threads = 1
    for key in _OFF:
        if entry_of(plain, key):
            plain.add_session_config_entry(key, "0")
    if plain.limits.run_seconds is not None:
        plain.limits = replace(plain.limits, run_seconds=SLOWER * plain.limits.run_seconds)
    return plain


def tolerances_for(options: SessionOptions) -> Tolerances:
    """The table of tolerances; float32 is compared as the type that its models may be computed in."""
    computed = {"bfloat16": DataType.BFLOAT16, "float16": DataType.FLOAT16}.get(options.precision)
    return TOLERANCES if computed is None else {**TOLERANCES, DataType.FLOAT: TOLERANCES[computed]}


def drawn_outputs(engine: Engine) -> frozenset[str]:
    """Names of the outputs that depend on random operators.

    Args:
        engine: An engine of the model as it was written.
    """
    model = engine.model
    drawn = set() if model is None else drawn_values(model.graph)
    return frozenset(output.name for output in engine.description.outputs if output.name in drawn)
