"""Products of a quantised model: with integers, exact sums and the model's own roundings.

A product whose factors wait for their conversion takes the integers: what they stand for becomes one scale of its sums,
a bias of real numbers and zero points. Comes on top of `conversions`; weights are looked at, no other shape is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ort_py.contracts import NodeSpec, RegionView
from ort_py_onednn.binding.constants import Binary, Element
from ort_py_onednn.binding.features import has_exact_integers
from ort_py_onednn.graph.conversions import FLOAT, Conversions, Rules, Waiting, name_of, output_of, single
from ort_py_onednn.graph.fusion import Fused
from ort_py_onednn.graph.integers import Array, Numbers, signed
from ort_py_onednn.graph.operation import Combine, Operation, Post, Result

__all__ = ["QuantizedFused", "fuse"]

_MOST_DEPTH = 1 << 16
"""Terms of sums that certainly fit into 32 bits: products of eight bits without a sign and of eight with one."""

_INTEGERS_DO = 4
"""Accuracy level of MatMulNBits that allows to compute with the first factor in 8 bits."""


class QuantizedFused(Conversions):
    """`Conversions` that knows products."""

    def __init__(self, region: RegionView, *, fast_math: bool = False) -> None:
        super().__init__(region, fast_math=fast_math)
        self._exact = has_exact_integers()

    def _convolution(self, node: NodeSpec) -> bool:
        return self._product(node, "QuantizedConv", 0)

    def _matmul(self, node: NodeSpec) -> bool:
        return self._product(node, "QuantizedMatMul", 1) or self._digit_product(node, 1)

    def _gemm(self, node: NodeSpec) -> bool:
        attributes = node.attributes
        if attributes.get("transA", 0) or attributes.get("alpha", 1.0) != 1.0 or attributes.get("beta", 1.0) != 1.0:
            return False
        columns = 0 if attributes.get("transB", 0) else 1
        return self._product(node, "QuantizedMatMul", columns) or self._digit_product(node, columns)

    def _product(self, node: NodeSpec, kind: str, columns: int) -> bool:
        """A product of integers that were computed with integers that are constants.

        Args:
            node: The node.
            kind: The operation.
            columns: The dimension of the weights along which their scale may change.
        """
        source, weights = self._integers(name_of(node, 0)), self._waiting.get(name_of(node, 1))
        if source is None or weights is None or weights.array is None or weights.element is None:
            return False
        from ort_py_onednn.graph.window_weights import fit  # most regions have no products of integers

        rank, shape = weights.array.ndim, weights.array.shape
        if not self._exact and not (
            fit(shape, columns, _shape(node), group=node.attributes.get("group", 1))
            and self._region.weight(weights.integers) is not None
        ):
            return False
        numbers = weights.numbers
        if kind == "QuantizedMatMul" and rank != 2:
            return False
        if not numbers.is_single and numbers.axis % rank != columns:
            return False
        bias = name_of(node, 2)
        vector = None
        scale, zero = single(source.numbers)
        with np.errstate(over="ignore"):
            scales = (np.float64(scale) * numbers.scale.astype(np.float64)).astype(FLOAT).reshape(-1)
        if bias:
            vector = self._bias(bias)
            if vector is None or vector.ndim != 1 or vector.size != weights.array.shape[columns]:
                return False
        held = self._signed(weights)
        if held is None or (held[1] and (kind == "QuantizedConv" or not self._exact)):
            return False
        if not np.isfinite(scales).all() or not (self._exact or vector is None or np.isfinite(vector).all()):
            return False  # bounds would turn what is not a number into one
        if weights.array.size // shape[columns] > (_MOST_DEPTH // 2 if held[1] else _MOST_DEPTH):
            return False
        title = node.name
        self.constants[f"{title}:scale"] = scales
        if vector is not None:
            self.constants[f"{title}:bias"] = np.ascontiguousarray(vector, FLOAT)
        inputs: tuple[str | None, ...] = (
            source.integers,
            held[0],
            None if vector is None else f"{title}:bias",
            f"{title}:scale",
            self._zero(f"{title}:zero", zero),
            self._zero(f"{title}:weights' zero", held[1]),
        )
        attributes = node.attributes
        if not self._exact:
            kind, attributes = "WindowSums", {**attributes, **_window_attributes(shape, columns, zero)}
            inputs = (source.integers, self._packed(weights.integers, numbers, columns), inputs[2], inputs[3])
        self._append(Operation(kind, title, inputs, (output_of(node),), attributes, node.since_version))
        return True

    def _packed(self, integers: str, numbers: Numbers, columns: int) -> str:
        from ort_py_onednn.graph.window_weights import WindowWeights  # likewise

        name = f"{integers}:windows {columns} {numbers.key}"
        source = self._region.weight(integers)
        assert source is not None, "a constant of the model"
        self.derived[name] = WindowWeights(source, numbers, columns)
        return name

    def _digit_product(self, node: NodeSpec, columns: int) -> bool:
        """A product of numbers with weights that are constant integers: the weights stay bytes.

        Args:
            node: The node.
            columns: The dimension of the weights that the result has.
        """
        weights, shape = self._waiting.get(name_of(node, 1)), None if node.inputs[0] is None else node.inputs[0].shape
        if not self._exact or weights is None or weights.array is None or weights.element is None or not shape:
            return False
        array, numbers = weights.array, weights.numbers
        if array.ndim != 2 or array.shape[1 - columns] > _MOST_DEPTH:
            return False
        if not numbers.is_single and numbers.axis % 2 != columns:
            return False
        held = self._signed(weights)
        if held is None or held[1]:
            return False
        bias = name_of(node, 2)
        for name in (name_of(node, 0), bias):
            self._real(name)
        scales = f"{node.name}:scales"
        self.constants[scales] = np.ascontiguousarray(numbers.scale, FLOAT).reshape(-1)
        made = Operation(
            "DigitMatMul",
            node.name,
            (name_of(node, 0), held[0], scales),
            (output_of(node),),
            {"transB": 1 - columns},
            node.since_version,
            [Combine(Binary.ADD, bias)] if bias else [],
        )
        self._append(made)
        return True

    def _bias(self, name: str) -> Array | None:
        """A constant bias as real numbers."""
        waiting = self._waiting.get(name)
        if waiting is not None:
            return None if waiting.array is None else waiting.numbers.real(waiting.array)
        found = self.constants.get(name)
        return found if found is not None or name in self._producer else self._region.constant(name)

    def _integer_bias(self, node: NodeSpec) -> bool:
        """Integers of 32 bits whose scale is that of the product they are added to."""
        bias, *scales = (self._region.constant(name_of(node, place)) for place in range(3))
        assert bias is not None
        real = bias.astype(np.float64)
        for scale in scales:
            assert scale is not None
            real = real * scale.astype(np.float64)
        self.constants[output_of(node)] = real.astype(FLOAT)
        return True

    def _signed(self, weights: Waiting) -> tuple[str, int] | None:
        assert weights.array is not None
        found = signed(weights.array, weights.numbers)
        if found is None:
            return None
        array, zero = found
        if array is weights.array:
            return weights.integers, zero
        name = f"{weights.integers}:signed"
        self.constants[name] = array
        return name, zero

    def _zero(self, name: str, zero: int) -> str | None:
        if not zero:
            return None
        self.constants[name] = np.array([zero], np.int32)
        return name

    def _whole_product(self, node: NodeSpec) -> bool:
        """MatMulInteger and ConvInteger: the sums of products are the result."""
        names = [name_of(node, place) or None for place in range(4)]
        kind = "QuantizedConv" if node.op_type == "ConvInteger" else "QuantizedMatMul"
        if not self._exact:
            inputs, attributes = self._window_factors(names, node.attributes)
            self._append(
                Operation("WindowSums", node.name, inputs, (output_of(node),), attributes, result=Result(Element.S32))
            )
            return True
        held, zero = self._factor(node.name, names[1], names[3])
        inputs = (names[0], held, None, None, names[2], zero)
        result = Result(Element.S32)
        self._append(
            Operation(kind, node.name, inputs, (output_of(node),), node.attributes, node.since_version, result=result)
        )
        return True

    def _real_product(self, node: NodeSpec) -> bool:
        """MatMulIntegerToFloat: the first factor's scale is found in the run."""
        a, b, a_scale, b_scale, a_zero, b_zero, bias = (name_of(node, place) or None for place in range(7))
        self._scaled_product(node, (a, b, bias, b_scale, a_zero, b_zero, a_scale))
        return True

    def _dynamic_product(self, node: NodeSpec) -> bool:
        """DynamicQuantizeMatMul: the first factor becomes integers in the run."""
        a, b, b_scale, b_zero, bias = (name_of(node, place) or None for place in range(5))
        self._real(a or "")
        made = tuple(f"{node.name}:{part}" for part in ("integers", "scale", "zero"))
        self._append(Operation("DynamicQuantizeLinear", node.name, (a,), made))
        self._scaled_product(node, (made[0], b, bias, b_scale, made[2], b_zero, made[1]))
        return True

    def _scaled_product(self, node: NodeSpec, inputs: tuple[str | None, ...]) -> None:
        source, held, bias, scale, zero, held_zero, source_scale = inputs
        given = self._region.constant(scale or "")
        assert given is not None, "claimed with constant scales"
        name = f"{node.name}:weights' scale"
        self.constants[name] = np.ascontiguousarray(given, FLOAT).reshape(-1)
        if not self._exact:
            factors, attributes = self._window_factors([source, held, zero, held_zero], {})
            posts: list[Post] = [Combine(Binary.MUL, source_scale)] if source_scale else []
            posts += [Combine(Binary.ADD, bias)] if bias else []
            factors = (*factors[:3], name, factors[4])
            self._append(Operation("WindowSums", node.name, factors, (output_of(node),), attributes, posts=posts))
            return
        held, held_zero = self._factor(node.name, held, held_zero)
        whole = (source, held, bias, name, zero, held_zero, source_scale)
        self._append(Operation("QuantizedMatMul", node.name, whole, (output_of(node),)))

    def _window_factors(
        self, names: Sequence[str | None], attributes: Mapping[str, Any]
    ) -> tuple[tuple[str | None, ...], Mapping[str, Any]]:
        """Inputs and attributes of a product whose first factor has its zero point in the run.

        Args:
            names: Both factors, and their zero points.
            attributes: Those of the node.
        """
        source, held, zero, held_zero = names
        array = self._region.constant(held or "")
        assert array is not None and held is not None, "claimed with constant weights"  # noqa: PT018
        numbers = self._less_zero(array, held_zero)
        more = _window_attributes(array.shape, numbers.axis, 0)
        return (source, self._packed(held, numbers, numbers.axis), None, None, zero), {**attributes, **more}

    def _less_zero(self, array: Array, zero: str | None) -> Numbers:
        """Read what constant weights stand for where they have no scale, only zero points."""
        given = np.zeros(1, np.int64) if zero is None else self._region.constant(zero)
        assert given is not None, "claimed with a constant zero point"
        return Numbers(np.ones(1, FLOAT), np.asarray(given).astype(np.int64), 0 if array.ndim != 2 else 1)

    def _block_product(self, node: NodeSpec) -> bool:
        """MatMulNBits: the weights are unpacked to bytes once."""
        self._real(name_of(node, 0))
        from ort_py_onednn.graph.block_weights import bits_of, unpacked  # few models have such weights

        found = unpacked([name_of(node, place) for place in range(6)], node.attributes, self._region.constant)
        assert not isinstance(found, str), "claimed with weights that fit"
        names = [f"{node.name}:{part}" for part in ("weights", "scales")]
        self.constants.update(zip(names, found, strict=True))
        attributes = {
            "coarse": node.attributes.get("accuracy_level", 0) == _INTEGERS_DO,
            "bits": bits_of(found[0]),
        }
        inputs = (name_of(node, 0), *names, name_of(node, 5) or None)
        self._append(Operation("MatMulNBits", node.name, inputs, (output_of(node),), attributes))
        return True

    def _recurrent(self, node: NodeSpec) -> bool:
        """DynamicQuantizeLSTM: the sequence becomes integers ahead of its steps."""
        for place in (0, 5, 6):
            self._real(name_of(node, place))
        from ort_py_onednn.graph.quantized_recurrent import quantized_recurrent

        operations, constants = quantized_recurrent(node, self._region.constant)
        self.constants.update(constants)
        for operation in operations:
            self._append(operation)
        return True

    def _factor(self, title: str, held: str | None, zero: str | None) -> tuple[str | None, str | None]:
        """Names of constant weights as int8 and of their zero point."""
        array = None if held in self._producer else self._region.constant(held or "")
        if array is None or held is None:
            return held, zero
        found = self._signed(Waiting(held, self._less_zero(array, zero), None, array))
        assert found is not None, "claimed with zero points that fit"
        return found[0], self._zero(f"{title}:weights' zero", found[1])

    rules: ClassVar[Rules] = {
        **Conversions.rules,
        "@Bias": _integer_bias,
        "Conv": _convolution,
        "ConvInteger": _whole_product,
        "DynamicQuantizeLSTM": _recurrent,
        "DynamicQuantizeMatMul": _dynamic_product,
        "Gemm": _gemm,
        "MatMul": _matmul,
        "MatMulInteger": _whole_product,
        "MatMulIntegerToFloat": _real_product,
        "MatMulNBits": _block_product,
    }


def _window_attributes(weights: Sequence[int], columns: int, zero: int) -> dict[str, Any]:
    from ort_py_onednn.graph.window_weights import window_shape  # likewise

    return {"weights": window_shape(weights, columns), "is_matrix": len(weights) == 2, "zero": zero}


def _shape(node: NodeSpec) -> Sequence[object] | None:
    return None if node.inputs[0] is None else node.inputs[0].shape


def fuse(region: RegionView, *, fast_math: bool = False) -> Fused:
    """A region's operations; with `fast_math` all chains of constants are merged."""
    fused = QuantizedFused(region, fast_math=fast_math)
    for node in fused.nodes:
        fused.add(node)
    fused.finish()
    return fused
