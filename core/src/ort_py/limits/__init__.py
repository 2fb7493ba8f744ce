"""Budgets for models: how much a file may make this process do.

Everything that turns numbers of a model into work asks here first: the loader, the weight store, kernels whose result
size depends on data, and runs. It does not depend on graphs, plans or providers.

`limits` holds the numbers, `budget` counts against them while a model loads, `allocation` checks and
measures one array, `running_time` lets long kernels look at the clock.
"""

from ort_py.contracts.running_time import check_time, checking_time, is_checked
from ort_py.limits.allocation import (
    array_bytes,
    array_memory,
    check_allocation,
    human_bytes,
    longest_text,
    unquestioned_elements,
)
from ort_py.limits.budget import Budget
from ort_py.limits.limits import Limits
from ort_py.limits.running_time import in_checked_parts

__all__ = [
    "Budget",
    "Limits",
    "array_bytes",
    "array_memory",
    "check_allocation",
    "check_time",
    "checking_time",
    "human_bytes",
    "in_checked_parts",
    "is_checked",
    "longest_text",
    "unquestioned_elements",
]
