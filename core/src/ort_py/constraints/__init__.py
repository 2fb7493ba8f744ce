"""Constraints of operators, and the gate that checks them before a compiled region runs.

One table says what the ONNX specification asks of the shapes, attributes and indices of an operator. It serves every
provider: nothing here knows which provider runs a node. Start with `table`, then `gate_walk` and `gate`. The table
itself is imported by those who walk it (`gate_walk`, `single`): a session that is restored from the cache does without.
"""

from __future__ import annotations

from ort_py.constraints.admissions import Admissions, check_elements, check_memory, check_work
from ort_py.constraints.gate import Admission, Gate

__all__ = ["Admission", "Admissions", "Gate", "check_elements", "check_memory", "check_work"]
