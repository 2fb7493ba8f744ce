"""If, Loop, Scan and SequenceMap as instructions: bodies run in child frames of the same run.

A module an operator; `bodies` holds what they share, with kernels that hold graphs too.
"""

from __future__ import annotations

from ort_py.execution.control_flow.batched_scans import compile_batched_scan
from ort_py.execution.control_flow.branches import compile_if
from ort_py.execution.control_flow.loops import compile_loop
from ort_py.execution.control_flow.scans import compile_scan
from ort_py.execution.control_flow.sequence_maps import compile_sequence_map

__all__ = ["compile_batched_scan", "compile_if", "compile_loop", "compile_scan", "compile_sequence_map"]
