"""Weights of experts in 8 or 4 bits of floating point, with scales of blocks and of whole experts.

fp8: float8e4m3fn; square blocks of ``block_size`` share a scale, or a whole expert does. fp4 and nvfp4: two float4e2m1
a byte, the first in the lower half; 32 columns share a float8e8m0, or 16 a float8e4m3fn scale, and an expert one more.
Comes before `experts`; knows no operator.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass
from ort_py_array.contrib.packed_weights import times_in_parts, unpacked

__all__ = ["FloatMatrices"]

_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)

_FP4_BLOCKS = {"fp4": 32, "nvfp4": 16}


@dataclass(frozen=True, slots=True)
class FloatMatrices:
    """One matrix ``(rows, width)`` an expert.

    Attributes:
        weights: float8 ``(experts, rows, width)``, or uint8 ``(experts, rows, width / 2)`` of two float4 each.
        scales: ``(experts, rows / tall, width / wide)``, or None.
        factors: float32, one an expert, or None.
        width: Columns.
        tall: Rows that share a scale.
        wide: Columns that share a scale.
    """

    weights: Array
    scales: Array | None
    factors: Array | None
    width: int
    tall: int
    wide: int

    @classmethod
    def of(
        cls,
        ctx: KernelContext,
        name: str,
        kind: str,
        weights: Array,
        scales: Array | None,
        factors: Array | None,
        shape: tuple[int, int, int],
    ) -> FloatMatrices:
        """Checked against the (unpacked) shape ``(experts, rows, width)`` that the other parameters ask for.

        Raises:
            InvalidArgument: Shapes or types do not fit, or scales are absent.
        """
        experts, rows, width = shape
        block = int(ctx.node.attributes.get("block_size", 0))
        tall, wide = (max(block, 0),) * 2 if kind == "fp8" else (1, _FP4_BLOCKS[kind])
        packed = shape if kind == "fp8" else (experts, rows, -(-width // 2))
        element = "float8_e4m3fn" if kind == "fp8" else "uint8"
        wanted: dict[str, tuple[Array | None, tuple[int, ...]]] = {f"{name}_experts_weights": (weights, packed)}
        if tall:
            wanted[f"{name}_scales"] = (scales, (experts, -(-rows // tall), -(-width // wide)))
        if (kind != "fp8" or not tall) and name != "fc3":  # which has no such input
            wanted[f"{name}_global_scale"] = (factors, (experts,))
        for label, (parameter, expected) in wanted.items():
            if parameter is None or tuple(parameter.shape) != expected:
                found = "absent" if parameter is None else f"of shape {list(parameter.shape)}"
                raise InvalidArgument(
                    f"{label} is {found}; quant_type '{kind}' needs the shape {list(expected)}.",
                    where=ctx.node.location,
                    fix="Check the attributes quant_type and block_size.",
                )
        if weights.dtype.name != element:
            raise InvalidArgument(
                f"{name}_experts_weights are {weights.dtype.name}; quant_type '{kind}' needs {element}.",
                where=ctx.node.location,
                fix="Check the attribute quant_type.",
            )
        return cls(
            weights, scales if tall else None, factors if kind != "fp8" or not tall else None, width, max(tall, 1), wide
        )

    def times(self, ctx: KernelContext, expert: int, x: Array) -> Array:
        """``x @ W.T`` of an expert, float32."""
        xp = ctx.xp
        own = self.weights[expert]
        scales = None if self.scales is None else self.scales[expert].astype(xp.float32)
        if self.factors is not None:
            x = x * self.factors[expert]
        table = xp.asarray([sign * entry for sign in (1.0, -1.0) for entry in _E2M1], dtype=xp.float32)

        def unpack(start: int, stop: int) -> Array:
            part = own[start:stop]
            packed = part.dtype == xp.uint8
            values = xp.take(table, unpacked(xp, part, 4, self.width)) if packed else part.astype(xp.float32)
            if scales is not None:
                by_row = xp.take(scales, xp.arange(start, stop) // self.tall, axis=0)
                xp.multiply(values, _columns(xp, by_row, self.wide, self.width), out=values)
            return values

        return times_in_parts(
            ctx, (own.shape[0], self.width), x.shape[0], lambda first, last: xp.matmul(x, unpack(first, last).T)
        )


def _columns(xp: Any, scales: Array, wide: int, width: int) -> Array:
    return xp.repeat(scales, wide, axis=1)[:, :width]
