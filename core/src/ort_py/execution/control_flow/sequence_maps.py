"""SequenceMap as an instruction. Specification: ONNX SequenceMap-17.

The specification leaves the order of the elements open; here it is theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ort_py.errors import InvalidArgument
from ort_py.execution.control_flow.bodies import enter, leave, run_body, store
from ort_py.planning.steps import SequenceMapStep

if TYPE_CHECKING:
    from ort_py.execution.instructions import Instruction, Slots

__all__ = ["compile_sequence_map"]


def compile_sequence_map(step: SequenceMapStep) -> Instruction:
    """Run the body once an element: inputs that are sequences are walked together, tensors go in as they are."""

    def instruction(s: Slots) -> None:
        inputs = [s[slot] for slot in step.mapped]
        walked = [index for index, value in enumerate(inputs) if isinstance(value, list)]
        counts = [len(inputs[index]) for index in walked]
        if not walked or walked[0] != 0:
            raise InvalidArgument(
                "The first input of SequenceMap is not a sequence.",
                where=step.location,
                fix="Give it a sequence; SequenceConstruct and SplitToSequence make them of tensors.",
            )
        if len(set(counts)) > 1:
            raise InvalidArgument(
                f"The sequences have different lengths: {counts}.",
                where=step.location,
                why=f"inputs {walked} are sequences",
                fix="All sequences must have as many elements as the first.",
            )
        collected: list[list[Any]] = [[] for _ in step.outputs]
        frame = enter(s, step.body)
        watch = frame.watch
        feeds = inputs.copy()
        for element in range(counts[0]):
            if watch is not None:
                watch.before(step)
            for index in walked:
                feeds[index] = inputs[index][element]
            results = run_body(frame, feeds)
            for items, result in zip(collected, results, strict=True):
                items.append(result)
            if watch is not None:
                watch.hold(step, results)
        leave(frame, step.body)
        store(s, step.outputs, collected, step.release)

    return instruction
