"""Sums in front of normalisations that no other operation takes: both are done in one call.

A residual is mostly added by the product in front of it. Where views or another reader lie between, or both summands
come from elsewhere, the sum is an operation of its own, and the normalisation that reads it may begin with it. Comes
after `fusion`; which of it pays is decided when a plan is made.
"""

from __future__ import annotations

from ort_py_onednn.binding.constants import Binary
from ort_py_onednn.graph.fusion import Fused

__all__ = ["JOINED", "join_sums"]

JOINED = "@joined"
"""Attribute of a normalisation that begins with a sum."""

_NORMALIZATIONS = frozenset({"LayerNormalization", "RMSNormalization"})
_PARAMETERS = {"LayerNormalization": 3, "RMSNormalization": 2}
"""Inputs of each but for the second summand: what is normalised, scale, and perhaps a bias."""


def join_sums(fused: Fused) -> None:
    """Let normalisations begin with the sums that they read: the second summand becomes their last input, the sum their
    second output.

    Args:
        fused: The operations, which are changed.
    """
    operations = fused.operations
    if _NORMALIZATIONS.isdisjoint(one.kind for one in operations):
        return
    made = {one.outputs[0]: one for one in operations if one.kind == "binary"}
    readers: dict[str, int] = {}
    for place, one in enumerate(operations):
        for name in one.reads():
            readers.setdefault(name, place)
    joined: set[int] = set()
    for place, one in enumerate(operations):
        total = one.inputs[0] if one.kind in _NORMALIZATIONS else None
        source = made.get(total) if total else None
        if total is None or source is None or id(source) in joined or readers[total] != place:
            continue
        if source.attributes["algorithm"] != Binary.ADD or source.posts or source.result is not None:
            continue
        if one.reads().count(total) > 1:
            continue
        first, second = source.inputs
        parameters = (*one.inputs[1:], None, None)[: _PARAMETERS[one.kind] - 1]
        one.inputs = (first, *parameters, second)
        one.outputs = (one.outputs[0], total)
        one.attributes = {**one.attributes, JOINED: 1}
        joined.add(id(source))
    fused.operations[:] = [one for one in operations if id(one) not in joined]
