"""The session that repeats runs: the same model on the plain NumPy provider, not optimised, on one thread.

Comes before `verifier`. Weights are those of the process's store, so they are in memory once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ort_py.api.comparison.configuration import SessionConfiguration
from ort_py.api.comparison.measuring import Tolerances
from ort_py.api.comparison.randomness import drawn_values
from ort_py.api.reopening import FileReference, expect_same_model, external_files, with_content
from ort_py.discovery import CPU_ROLE
from ort_py.dtypes import DataType
from ort_py.engine.provider_choice import NO_CPU
from ort_py.enums import ExecutionMode, GraphOptimizationLevel
from ort_py.errors import InvalidArgument
from ort_py.tolerances import TOLERANCES

if TYPE_CHECKING:
    from ort_py.api.session import InferenceSession
    from ort_py.options import SessionOptions

__all__ = ["drawn_outputs", "open_reference", "reference_configuration", "tolerances_for"]

SLOWER = 10.0
"""How much longer than a run of the session its repetition may take, where `Limits.run_seconds` says something."""

_OFF = (NO_CPU, "ep.context_enable", "session.fast_math")
"""Config entries that would forbid the NumPy provider, write files, or change results."""


def open_reference(session: InferenceSession) -> InferenceSession:
    """The session that repeats the runs of another one.

    Raises:
        InvalidArgument: The model was not kept, or its file is another one now.
        OrtPyError: The NumPy provider cannot run the model.
    """
    recipe = session._recipe
    source, reference = recipe.source, None
    if isinstance(source, FileReference):
        reference, source = with_content(source, session), source.path
    if source is None:
        raise InvalidArgument(
            "The model cannot be loaded once more.", why=recipe.reason, fix="Create the session from a path."
        )
    opened = reference_configuration(session._options).open(source)
    try:
        if reference is not None:
            expect_same_model(reference, opened._built.fingerprint, external_files(opened._built))
        elif opened._built.fingerprint != session._built.fingerprint:
            raise InvalidArgument("The model was changed after the session was made.", fix="Pass its bytes.")
    except InvalidArgument:
        opened.close()
        raise
    return opened


def reference_configuration(options: SessionOptions) -> SessionConfiguration:
    """How results that can be trusted are computed.

    Args:
        options: Of the session that is verified.
    """
    plain = options.copied()
    plain.pin_cpu = True
    plain.strict = ""
    plain.precision = "float32"
    plain.fast_math = False
    plain.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    plain.execution_mode = ExecutionMode.ORT_SEQUENTIAL
    plain.intra_op_num_threads = 1
    for key in _OFF:
        if plain.entry(key):
            plain.add_session_config_entry(key, "0")
    if plain.limits.run_seconds is not None:
        plain.limits = replace(plain.limits, run_seconds=SLOWER * plain.limits.run_seconds)
    return SessionConfiguration(plain, [CPU_ROLE])


def tolerances_for(options: SessionOptions) -> Tolerances:
    """The table of tolerances; float32 is compared as the type that its models may be computed in."""
    computed = {"bfloat16": DataType.BFLOAT16, "float16": DataType.FLOAT16}.get(options.precision)
    return TOLERANCES if computed is None else {**TOLERANCES, DataType.FLOAT: TOLERANCES[computed]}


def drawn_outputs(session: InferenceSession) -> frozenset[str]:
    """Names of the outputs that depend on random operators.

    Args:
        session: Of the model as it was written.
    """
    model = session._built.model
    drawn = set() if model is None else drawn_values(model.graph)
    return frozenset(output.name for output in session.get_outputs() if output.name in drawn)
