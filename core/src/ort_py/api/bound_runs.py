"""A run of a binding: as `InferenceSession.run`, its outputs written to the binding's memory where a step can do that.

Comes between `io_binding` and `runner`. What a run returns is another array than the given one where no step could use
it, and is for the binding to copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_py.api.recovery import recover

if TYPE_CHECKING:
    from ort_py.api.session import InferenceSession

__all__ = ["run_bound"]


def run_bound(
    session: InferenceSession, output_names: Sequence[str], input_feed: Mapping[str, Any], memory: Mapping[str, Any]
) -> list[Any]:
    """Run once; runs that somebody looks on at are run as ever.

    Args:
        session: The session.
        output_names: Outputs wanted, empty for all.
        input_feed: Values by input name.
        memory: Arrays by the name of an output.

    Raises:
        OrtPyError: As `InferenceSession.run`.
    """
    runner = session._runner
    if runner is None or session._observed:
        return session.run(output_names, input_feed)
    try:
        return runner.run(output_names, input_feed, runner.writing_to(memory))
    except Exception as error:  # as in `InferenceSession.run`
        return recover(session, runner, error, output_names, input_feed, None)
