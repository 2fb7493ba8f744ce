"""The bound on a session's memory, checked when it is made: what is there already must leave room for a run.

During runs `execution.watch` goes on counting; before constants are made `limits.budget` does. All three raise the
same error.
"""

from __future__ import annotations

from heapq import nlargest

from ort_py.engine.memory_report import MemoryReport
from ort_py.errors import MemoryLimitError
from ort_py.graph.ir import Model
from ort_py.graph.weights.accounting import named_weights
from ort_py.limits import human_bytes
from ort_py.limits.budget import MEMORY_FIX
from ort_py.platform.heap import give_back

__all__ = ["settle_memory"]

_NAMED = 5


_WORTH_TRIMMING = 8 << 20
"""Bytes of constants from which what loading and packing them freed is given back: that takes a millisecond."""


def settle_memory(report: MemoryReport, model: Model | None) -> None:
    """Give back what making a session took beside what it keeps, and check that against its limit.

    Args:
        report: What the session keeps.
        model: Its model.

    Raises:
        MemoryLimitError: It keeps more than it may.
    """
    if report.weights + report.packed + report.weights_released >= _WORTH_TRIMMING:
        give_back()
    _check(report, model)


def _check(report: MemoryReport, model: Model | None) -> None:
    """Refuse a session whose constants alone pass its limit.

    Args:
        report: What it holds, and the limit.
        model: Its model.

    Raises:
        MemoryLimitError: They do; the largest constants are named.
    """
    if report.limit is None or report.total <= report.limit:
        return
    weights = named_weights(model).values() if model is not None else ()
    largest = nlargest(_NAMED, ((weight.nbytes, name) for name, weight in weights))
    total = sum(one.weights for one in report.devices.values())
    packed = sum(one.packed for one in report.devices.values())
    raise MemoryLimitError(
        f"The session holds {human_bytes(report.total)} before its first run; {human_bytes(report.limit)} are allowed.",
        why=[
            f"its constants take {human_bytes(total)}, the values that kernels derived from them {human_bytes(packed)}",
            *(f"constant '{name}' has {human_bytes(size)}" for size, name in largest),
        ],
        fix=MEMORY_FIX,
        largest=tuple((name, size) for size, name in largest),
    )
