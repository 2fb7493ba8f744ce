"""Loop as an instruction. Specification: ONNX Loop-1…25. Only the iterations themselves loop in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.execution.control_flow.bodies import enter, leave, one_integer, run_body, store, truth
from ort_py.execution.control_flow.stacking import stack
from ort_py.planning.steps import NONE_SLOT, LoopStep

if TYPE_CHECKING:
    from ort_py.execution.instructions import Instruction, Slots

__all__ = ["compile_loop"]


def compile_loop(step: LoopStep) -> Instruction:
    """Run the body up to the trip count, while its condition holds."""
    carried_count = len(step.carried)

    def instruction(s: Slots) -> None:
        trip = None if step.trip_count == NONE_SLOT else s[step.trip_count]
        limit = None if trip is None else one_integer(trip, "trip count", step.location)
        go_on = True if step.condition == NONE_SLOT else truth(s[step.condition], step.location)
        carried = [s[slot] for slot in step.carried]
        collected: list[list[Any]] = [[] for _ in step.scan_types]
        frame = enter(s, step.body)
        watch = frame.watch
        iteration = 0
        while go_on and (limit is None or iteration < limit):
            if watch is not None:
                watch.before(step)  # a body may have no step at all
            number, flag = np.array(iteration, np.int64), np.array(True)
            results = run_body(frame, (number, flag, *carried))
            go_on = truth(results[0], step.location)
            carried = results[1 : 1 + carried_count]
            for items, result in zip(collected, results[1 + carried_count :], strict=True):
                items.append(result)
            if watch is not None:
                watch.hold(step, results[1 + carried_count :])
            iteration += 1
        leave(frame, step.body)
        stacked = [
            stack(
                items,
                0,
                index=index,
                value_type=step.scan_types[index],
                module=step.scan_modules[index],
                check_allocation=step.check_allocation,
                where=step.location,
            )
            for index, items in enumerate(collected)
        ]
        store(s, step.outputs, [*carried, *stacked], step.release)

    return instruction
