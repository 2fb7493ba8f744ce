"""onnxruntime's enumerations, with its names and numbers."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel"]


class GraphOptimizationLevel(IntEnum):
    """How far the graph is optimised before it runs."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Whether independent branches may run at once."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """In which of the valid orders nodes run."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2
