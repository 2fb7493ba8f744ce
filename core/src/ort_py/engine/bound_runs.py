"""Runs of a binding: plain runs whose outputs are written to the binding's memory where a step can do that.

Comes between `io_binding` and `runner`. What a run returns is another array than the given one where no step could use
it, and is for the binding to copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ort_py.engine.engine import Engine
from ort_py.engine.runs import answer, run


def run_bound(
    engine: Engine, output_names: Sequence[str], input_feed: Mapping[str, Any], memory: Mapping[str, Any]
) -> list[Any]:
    """Run once; observed runs are run as without bound memory.

    Args:
        output_names: Outputs wanted, empty for all.
    """
    runner = engine.runner
    if runner is None or engine.observed:
        return run(engine, output_names, input_feed)
    writing = runner.writing_to(memory)
    try:
        return runner.run(output_names, input_feed, writing)
    except Exception as error:  # as in `run`
        if writing is not None and writing.over_inputs:
            error.add_note("The run is not repeated: it may have written to memory bound to an input and an output.")
            raise
        return answer(engine, runner, error, output_names, input_feed, None)
