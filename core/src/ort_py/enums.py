"""onnxruntime's enumerations that options have, with its names and numbers. `value_enums` has the others.

Applications compare members with plain numbers, look them up in ``__members__``, print and pickle them; so members are
integers that print like onnxruntime's: ``OrtMemType.DEFAULT``. It is independent of what the members mean to the
engine.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class PrintedByName(IntEnum):
    """Numbers whose text is their name: `IntEnum` prints the number since Python 3.11."""

    __str__ = Enum.__str__
    __format__ = Enum.__format__


class GraphOptimizationLevel(PrintedByName):
    """The extent to which the graph is optimised before it runs."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(PrintedByName):
    """Whether independent branches may run at once."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(PrintedByName):
    """In which of the valid orders nodes run."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtExecutionProviderDevicePolicy(PrintedByName):
    """By what a session chooses its providers where none is named."""

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6
