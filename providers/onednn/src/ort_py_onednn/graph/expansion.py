"""Expansion of fused operators into simpler ones.

The core's optimiser and other exporters fuse before a provider is asked; here everything is fused again, because one
primitive can do more than the definition of any operator contains. It is independent of how the simpler ones are run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ort_py.contracts import NodeSpec, ValueSpec
from ort_py.contracts.quantized_expansion import QUANTIZED_RULES
from ort_py.contracts.steps import Steps
from ort_py.dtypes import TensorType
from ort_py_onednn.graph.decomposition import DECOMPOSED

__all__ = ["expand"]

CONTRIB = "com.microsoft"
_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "HardSwish": (),
    "Selu": ("alpha", "gamma"),
    "Clip": ("min", "max"),
}
"""Activations of FusedConv and FusedGemm, with their parameters in the order of a list."""


def expand(node: NodeSpec) -> Sequence[NodeSpec] | None:
    """Return the nodes that a fused operator consists of, or the node itself. None if an attribute of it is not
    supported here.
    """
    rule = _RULES.get((node.domain, node.op_type))
    if rule is None:
        return (node,)
    steps = Steps(node)
    return steps.made if rule(steps) else None


def _activated(steps: Steps, op_type: str, inputs: Sequence[ValueSpec | None], added: ValueSpec | None) -> bool:
    attributes = dict(steps.node.attributes)
    name = attributes.pop("activation", None)
    listed = attributes.pop("activation_params", None)
    given = {key.removeprefix("activation_"): attributes.pop(key) for key in list(attributes) if "activation_" in key}
    if name and name not in _ACTIVATIONS:
        return False
    result = steps.output(0)
    last = result if added is None and not name else steps.between(result)
    found = steps.add(op_type, inputs, last, attributes, 11)
    if added is not None:
        found = steps.add("Add", (found, added), steps.between(result) if name else result)
    if name:
        names = _ACTIVATIONS[name]
        parameters = (
            dict(zip(names, listed, strict=False)) if listed else {key: given[key] for key in names if key in given}
        )
        steps.add(name, (found,), result, parameters, 6)
    return True


def _fused_conv(steps: Steps) -> bool:
    return _activated(steps, "Conv", tuple(steps.input(place) for place in range(3)), steps.input(3))


def _fused_gemm(steps: Steps) -> bool:
    return _activated(steps, "Gemm", tuple(steps.input(place) for place in range(3)), None)


def _fused_matmul(steps: Steps) -> bool:
    attributes = steps.node.attributes
    if attributes.get("transBatchA", 0) or attributes.get("transBatchB", 0):
        return False
    sides: list[ValueSpec | None] = []
    for place, name in enumerate(("transA", "transB")):
        value = steps.input(place)
        if attributes.get(name, 0):
            shape = None if value is None else value.shape
            if shape is None or len(shape) < 2:
                return False
            order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
            kind = value.type if value is not None else None
            assert isinstance(kind, TensorType)
            turned = ValueSpec(f"{steps.node.name}:{name}", replace(kind, shape=(*shape[:-2], shape[-1], shape[-2])))
            value = steps.add("Transpose", (value,), turned, {"perm": order})
        sides.append(value)
    alpha = attributes.get("alpha", 1.0)
    result = steps.output(0)
    found = steps.add("MatMul", sides, result if alpha == 1.0 else steps.between(result))
    if alpha != 1.0:
        steps.add("@Linear", (found,), result, {"alpha": alpha})
    return True


def _quick_gelu(steps: Steps) -> bool:
    steps.add("Swish", (steps.input(0),), steps.output(0), {"alpha": steps.node.attributes.get("alpha", 1.702)})
    return True


def _gelu(tanh: bool) -> Callable[[Steps], bool]:
    def rule(steps: Steps) -> bool:
        value = steps.input(0)
        if steps.input(1) is not None:
            value = steps.add("Add", (value, steps.input(1)), None)
        steps.add("Gelu", (value,), steps.output(0), {"approximate": "tanh" if tanh else "none"}, 20)
        return True

    return rule


def _skip(simplified: bool) -> Callable[[Steps], bool]:
    def rule(steps: Steps) -> bool:
        if steps.output(1) is not None or steps.output(2) is not None:
            return False
        bias = steps.input(3 if simplified else 4)
        total = steps.output(3)
        value = steps.add("Add", (steps.input(0), steps.input(1)), total if bias is None else None)
        if bias is not None:
            value = steps.add("Add", (value, bias), total)
        epsilon = steps.node.attributes.get("epsilon", 1e-12)
        if simplified:
            return _root_mean_square(steps, value, steps.input(2), epsilon, -1)
        steps.add(
            "LayerNormalization",
            (value, steps.input(2), steps.input(3)),
            steps.output(0),
            {"axis": -1, "epsilon": epsilon},
            17,
        )
        return True

    return rule


def _simplified(steps: Steps) -> bool:
    value, attributes = steps.input(0), steps.node.attributes
    shape = None if value is None else value.shape
    if value is None or not shape or attributes.get("stash_type", 1) != 1 or steps.output(1) is not None:
        return False
    axis, epsilon = attributes.get("axis", -1), attributes.get("epsilon", 1e-5)
    return _root_mean_square(steps, value, steps.input(1), epsilon, axis)


def _root_mean_square(steps: Steps, value: ValueSpec, scale: ValueSpec | None, epsilon: float, axis: int) -> bool:
    if value.shape is None:
        return False
    steps.add("RMSNormalization", (value, scale), steps.output(0), {"axis": axis, "epsilon": epsilon}, 23)
    return True


_RULES: Mapping[tuple[str, str], Callable[[Steps], bool]] = {
    **DECOMPOSED,
    **QUANTIZED_RULES,
    (CONTRIB, "FusedConv"): _fused_conv,
    (CONTRIB, "FusedGemm"): _fused_gemm,
    (CONTRIB, "FusedMatMul"): _fused_matmul,
    (CONTRIB, "Gelu"): _gelu(tanh=False),
    (CONTRIB, "BiasGelu"): _gelu(tanh=False),
    (CONTRIB, "FastGelu"): _gelu(tanh=True),
    (CONTRIB, "QuickGelu"): _quick_gelu,
    (CONTRIB, "SkipLayerNormalization"): _skip(simplified=False),
    (CONTRIB, "SkipSimplifiedLayerNormalization"): _skip(simplified=True),
    ("", "SimplifiedLayerNormalization"): _simplified,
    ("", "RMSNormalization"): _simplified,
}
