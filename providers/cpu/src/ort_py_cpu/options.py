"""The options of CPUExecutionProvider: none.

What onnxruntime's users tune about its CPU provider, threads and the arena, belongs to the session here, because the
process has one thread pool and every provider's memory is planned by the core. Options of that name are answered by the
core's table of names that onnxruntime knows.
"""

from __future__ import annotations

from ort_py.contracts import OptionSpec

__all__ = ["OPTIONS"]

OPTIONS: tuple[OptionSpec, ...] = ()
