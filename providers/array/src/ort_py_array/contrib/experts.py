"""MoE and QMoE: mixtures of experts, of plain and of quantised weights.

Tokens are grouped by expert, and the loop goes over the experts that have any: one GEMM for each projection. Quantised
weights are unpacked expert by expert, a few rows at a time. See `routing` and `expert_layers`.
"""

from __future__ import annotations

from typing import Any

from ort_py import errors
from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.contrib.block_quantized import checked_bits, checked_block_size, shifts_of
from ort_py_array.contrib.expert_layers import Experts, Network, Projection, mixture
from ort_py_array.contrib.float_weights import FloatMatrices
from ort_py_array.contrib.packed_weights import PackedMatrix
from ort_py_array.contrib.schemas.notation import DOMAIN
from ort_py_array.precision import widened

__all__ = ["moe", "qmoe"]


def _check_shape(ctx: KernelContext, name: str, parameter: Array, wanted: tuple[int, ...]) -> None:
    if tuple(parameter.shape) != wanted:
        raise InvalidArgument(
            f"{name} has shape {list(parameter.shape)} instead of {list(wanted)}.",
            where=ctx.node.location,
            fix="Weights are (experts, outputs, inputs) and biases (experts, outputs).",
        )


def _check_input(ctx: KernelContext, x: Array, first: Array, second: Array) -> None:
    if x.ndim not in (2, 3) or first.ndim != 3 or second.ndim != 3:
        raise InvalidArgument(
            f"The input has rank {x.ndim} and the weights {first.ndim} and {second.ndim}.",
            where=ctx.node.location,
            fix="The input needs rank 2 or 3, weights need rank 3.",
        )


def _check_third(ctx: KernelContext, network: Network, third: Array | None) -> None:
    if network.activation == "swiglu" and (third is not None) == network.fused:
        raise InvalidArgument(
            f"swiglu_fusion is {network.fusion}, and fc3_experts_weights are {'there' if network.fused else 'absent'}.",
            where=ctx.node.location,
            fix="Fused, gate and value are both in fc1; not fused, the value is in fc3.",
        )


@kernel("MoE", domain=DOMAIN, since=1, host_inputs=frozenset({1}))
def moe(
    ctx: KernelContext,
    x: Array,
    router_probs: Array,
    fc1: Array,
    fc1_bias: Array | None,
    fc2: Array,
    fc2_bias: Array | None = None,
    fc3: Array | None = None,
    fc3_bias: Array | None = None,
    **_attributes: Any,
) -> Array:
    """com.microsoft.MoE-1: a mixture of experts; sums are formed in float32 and rounded once.

    Input ``(tokens, hidden)`` or ``(batch, length, hidden)``, router scores (host) ``(tokens, experts)``, weights
    ``(experts, outputs, inputs)``. With ``fc3``, the activated hidden layer is multiplied by its result.

    Raises:
        InvalidArgument: Shapes or attributes do not fit.
    """
    network = Network.of(ctx)
    _check_input(ctx, x, fc1, fc2)
    _check_third(ctx, network, fc3)
    hidden, inner = x.shape[-1], fc2.shape[2]
    experts = fc1.shape[0]
    shapes = {
        "fc1": (fc1, fc1_bias, (1 + network.fused) * inner, hidden),
        "fc2": (fc2, fc2_bias, hidden, inner),
        "fc3": (fc3, fc3_bias, inner, hidden),
    }
    for name, (weights, bias, outputs, inputs) in shapes.items():
        if weights is not None:
            _check_shape(ctx, f"{name}_experts_weights", weights, (experts, outputs, inputs))
        if bias is not None:
            _check_shape(ctx, f"{name}_experts_bias", bias, (experts, outputs))
    projections = [_plain(ctx, weights, bias) for weights, bias, _, _ in shapes.values() if weights is not None]
    third = projections[2] if fc3 is not None else None
    return mixture(ctx, network, x, router_probs, Experts(experts, fc1.shape[1], projections[0], projections[1], third))


def _plain(ctx: KernelContext, weights: Array, bias: Array | None) -> Projection:
    xp = ctx.xp

    def project(expert: int, x: Array) -> Array:
        return _with_bias(xp, xp.matmul(x, widened(xp, weights[expert]).T), bias, expert)

    return project


def _with_bias(xp: Any, y: Array, bias: Array | None, expert: int) -> Array:
    return y if bias is None else xp.add(y, widened(xp, bias[expert]), out=y)


@kernel("QMoE", domain=DOMAIN, since=1, host_inputs=frozenset({1, 14}))
def qmoe(
    ctx: KernelContext,
    x: Array,
    router_probs: Array,
    fc1: Array,
    fc1_scales: Array | None,
    fc1_bias: Array | None,
    fc2: Array,
    fc2_scales: Array | None = None,
    fc2_bias: Array | None = None,
    fc3: Array | None = None,
    fc3_scales: Array | None = None,
    fc3_bias: Array | None = None,
    fc1_zeros: Array | None = None,
    fc2_zeros: Array | None = None,
    fc3_zeros: Array | None = None,
    router_weights: Array | None = None,
    fc1_global: Array | None = None,
    fc2_global: Array | None = None,
    *activation_scales: Array | None,
    **_attributes: Any,
) -> Array:
    """com.microsoft.QMoE-1: `moe` with weights of 2, 4 or 8 bits, of float8, or of float4 with scaled blocks.

    ``quant_type`` int: packed as in MatMulNBits, with a scale for each row or each block of ``block_size`` columns.
    fp8, fp4 and nvfp4: see `float_weights`. Activations are not quantised.

    Raises:
        InvalidArgument: Shapes or attributes do not fit.
        NotImplemented: Quantised activations (wfp4afp8), or weights prepacked for a device.
    """
    network = Network.of(ctx)
    attributes, where = ctx.node.attributes, ctx.node.location
    kind = attributes.get("quant_type", "int")
    if kind not in ("int", "fp8", "fp4", "nvfp4"):
        raise errors.NotImplemented(f"quant_type '{kind}'.", where=where, fix="Use int, fp8, fp4 or nvfp4.")
    if kind == "int" and attributes.get("weights_prepacked", -1) == 1:
        raise errors.NotImplemented(
            "Weights prepacked for a device (weights_prepacked=1).",
            where=where,
            fix="Export the model with weights_prepacked=0.",
        )
    _check_input(ctx, x, fc1, fc2)
    _check_third(ctx, network, fc3)
    hidden, experts = x.shape[-1], fc1.shape[0]
    inner = fc1.shape[1] // (1 + network.fused)
    given = (
        ("fc1", fc1, fc1_scales, fc1_bias, fc1_zeros, fc1_global, (1 + network.fused) * inner, hidden),
        ("fc2", fc2, fc2_scales, fc2_bias, fc2_zeros, fc2_global, hidden, inner),
        ("fc3", fc3, fc3_scales, fc3_bias, fc3_zeros, None, inner, hidden),
    )
    projections = []
    for name, weights, scales, bias, zeros, factor, outputs, inputs in given:
        if weights is None:
            continue
        if bias is not None:
            _check_shape(ctx, f"{name}_experts_bias", bias, (experts, outputs))
        if kind == "int":
            projections.append(_integers(ctx, name, weights, scales, zeros, bias, (experts, outputs, inputs)))
        else:
            matrices = FloatMatrices.of(ctx, name, kind, weights, scales, factor, (experts, outputs, inputs))
            projections.append(_floats(ctx, matrices, bias))
    third = projections[2] if fc3 is not None else None
    return mixture(
        ctx,
        network,
        x,
        router_probs,
        Experts(experts, fc1.shape[1], projections[0], projections[1], third),
        router_weights,
    )


def _integers(
    ctx: KernelContext,
    name: str,
    weights: Array,
    scales: Array | None,
    zeros: Array | None,
    bias: Array | None,
    shape: tuple[int, int, int],
) -> Projection:
    """A projection with packed integers of this (unpacked) shape."""
    xp = ctx.xp
    experts, outputs, inputs = shape
    bits = checked_bits(ctx, f"{name}_expert_weight_bits", ctx.node.attributes.get("expert_weight_bits", 4))
    block = checked_block_size(ctx) if ctx.node.attributes.get("block_size", 0) > 0 else inputs
    if not block or inputs % block or inputs * bits % 8:
        raise InvalidArgument(
            f"{name} has {inputs} inputs of {bits} bits, in blocks of {block}.",
            where=ctx.node.location,
            fix="Rows must be whole bytes and whole blocks.",
        )
    blocks = inputs // block
    _check_shape(ctx, f"{name}_experts_weights", weights, (experts, outputs, inputs * bits // 8))
    by_block = block < inputs or (scales is not None and scales.ndim == 3)
    wanted = (experts, outputs, blocks) if by_block else (experts, outputs)
    if scales is None:
        raise InvalidArgument(f"{name}_scales are absent.", where=ctx.node.location, fix="Integers need their scales.")
    _check_shape(ctx, f"{name}_scales", scales, wanted)
    if zeros is not None:
        packed = (experts, outputs, -(-blocks * bits // 8)) if by_block else (experts, -(-outputs * bits // 8))
        _check_shape(ctx, f"{name}_zero_points", zeros, packed)

    def project(expert: int, x: Array) -> Array:
        shifts = None
        if zeros is not None:  # without blocks, the zero points of several rows share a byte
            layout = (outputs, blocks) if by_block else (1, outputs)
            shifts = shifts_of(ctx, zeros[expert], bits, layout).reshape((outputs, blocks))
        own = PackedMatrix(weights[expert], scales[expert].reshape((outputs, blocks)), shifts, bits)
        return _with_bias(xp, own.times(ctx, x), bias, expert)

    return project


def _floats(ctx: KernelContext, matrices: FloatMatrices, bias: Array | None) -> Projection:
    def project(expert: int, x: Array) -> Array:
        return _with_bias(ctx.xp, matrices.times(ctx, expert, x), bias, expert)

    return project
