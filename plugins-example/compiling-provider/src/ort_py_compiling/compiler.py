"""From a region to one function: straight-line Python over NumPy functions, made once.

Names in the source are counted (``i0``, ``c0``, ``t3``): nothing a model says gets into it. Temporaries are written
over where shapes allow it. Comes after `operators`; `provider` calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ort_py.contracts import Array, NodeSpec, RegionView, ValueSpec
from ort_py_compiling.operators import OPERATORS

__all__ = ["compile_region", "refusal_of", "source_of"]

_TYPES = ("tensor(float)", "tensor(double)")


def compile_region(region: RegionView) -> Callable[..., Sequence[Array]]:
    """A function of the region's inputs that returns its outputs: new arrays, C-contiguous.

    Args:
        region: Nodes of the operators in `OPERATORS`; its constants are read now and kept.
    """
    constants = [region.constant(value.name) for value in region.initializers]
    namespace: dict[str, Any] = {f"c{index}": array for index, array in enumerate(constants)}
    namespace |= {f"f{index}": OPERATORS[node.op_type].function for index, node in enumerate(region.nodes)}
    namespace["array"] = np.asarray
    exec(source_of(region), namespace)  # noqa: S102 - the source holds nothing but counted names
    function: Callable[..., Sequence[Array]] = namespace["region"]
    return function


def source_of(region: RegionView) -> str:
    """The source of the function: one line a node."""
    names = {value.name: f"i{index}" for index, value in enumerate(region.inputs)}
    names |= {value.name: f"c{index}" for index, value in enumerate(region.initializers)}
    kept = {value.name for value in region.outputs}
    # Last node that reads each value: from there on its array may be written over.
    last = {value.name: index for index, node in enumerate(region.nodes) for value in node.inputs if value is not None}
    lines = [f"def region({', '.join(names[value.name] for value in region.inputs)}):"]
    temporary: set[str] = set()
    for index, node in enumerate(region.nodes):
        (result,) = node.outputs
        assert result is not None
        given = [names[value.name] for value in node.inputs if value is not None]
        free = [
            names[value.name]
            for value in node.inputs
            if value is not None
            and value.name in temporary
            and value.name not in kept
            and last[value.name] == index
            and _same_form(value, result)
        ]
        target = f", out={free[0]}" if free else ""
        names[result.name] = f"t{index}"
        temporary.add(result.name)
        lines.append(f"    t{index} = f{index}({', '.join(given)}{target})")
    # NumPy's functions return bare numbers for arrays without dimensions.
    returned = "".join(f"array({names[value.name]}), " for value in region.outputs)
    return "\n".join([*lines, f"    return ({returned})"])


def _same_form(one: ValueSpec, other: ValueSpec) -> bool:
    """Whether two values are arrays of one shape and type in every run: sizes with one name are one size."""
    known = one.shape is not None and len(one.shape) > 0 and None not in one.shape
    return known and one.shape == other.shape and one.data_type is other.data_type


def refusal_of(node: NodeSpec) -> str | None:
    """Explain why a node cannot be part of such a function, or return None."""
    operator = OPERATORS.get(node.op_type) if node.domain == "" else None
    if operator is None:
        return f"{node.op_type} is no operator that is compiled"
    if not operator.since <= node.since_version <= operator.last:
        return f"version {node.since_version} of {node.op_type} is not compiled, {operator.since}-{operator.last} are"
    wrong = [bound for bound in node.type_bindings.values() if bound not in _TYPES]
    if wrong or not node.type_bindings:
        return f"{', '.join(wrong) or 'an unknown type'} is not compiled, {' and '.join(_TYPES)} are"
    return None
