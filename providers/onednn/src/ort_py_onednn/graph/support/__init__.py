"""Support checks: a reason for each node that cannot be run. There is one module per family of operators, joined in
`table`.
"""

from __future__ import annotations

from ort_py_onednn.graph.support.table import is_heavy, read_while_planning, refusal

__all__ = ["is_heavy", "read_while_planning", "refusal"]
