"""Element types of products: which types cuBLASLt multiplies, in which it adds up, and what it calls them.

Comes before `layout`. It contains names of dtypes and the numbers of `library_types.h` and `cublas_api.h`, and uses
neither arrays nor the library.
"""

from __future__ import annotations

from enum import IntEnum

from ort_py.lazy_dataclass import dataclass

__all__ = ["Arithmetic", "Compute", "CudaType", "Epilogue", "arithmetic_of"]


class CudaType(IntEnum):
    """``cudaDataType``, the members that products use."""

    R_32F = 0
    R_64F = 1
    R_16F = 2
    R_8I = 3
    R_32I = 10
    R_16BF = 14
    R_8F_E4M3 = 28
    R_8F_E5M2 = 29

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return _ITEM_SIZES[self]


_ITEM_SIZES = {
    CudaType.R_32F: 4,
    CudaType.R_64F: 8,
    CudaType.R_16F: 2,
    CudaType.R_8I: 1,
    CudaType.R_32I: 4,
    CudaType.R_16BF: 2,
    CudaType.R_8F_E4M3: 1,
    CudaType.R_8F_E5M2: 1,
}


class Compute(IntEnum):
    """``cublasComputeType_t``: what products are multiplied and added up in."""

    F32 = 68
    F64 = 70
    I32 = 72
    F32_FAST_TF32 = 77


class Epilogue(IntEnum):
    """``cublasLtEpilogue_t``: what happens to a result before it is stored.

    A bias has one entry per row of the library's column-major result: one per column of ours. GELU is the approximation
    by tanh, so it serves FastGelu and ``Gelu(approximate="tanh")`` only.
    """

    DEFAULT = 1
    RELU = 2
    BIAS = 4
    RELU_BIAS = 6
    GELU = 32
    GELU_BIAS = 36

    @property
    def has_bias(self) -> bool:
        """True if a bias is added."""
        return bool(self & Epilogue.BIAS)

    @property
    def with_bias(self) -> Epilogue:
        """The same behind a bias."""
        return {
            Epilogue.DEFAULT: Epilogue.BIAS,
            Epilogue.RELU: Epilogue.RELU_BIAS,
            Epilogue.GELU: Epilogue.GELU_BIAS,
        }.get(self, self)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The types of one product.

    Attributes:
        operand: Elements of our A, and of B unless `other` says more.
        result: Elements of what is added (C) and of the result (D).
        compute: What is added up in.
        scale: Type of alpha and beta.
        other: Elements of our B where they are others: the two forms of float8.
    """

    operand: CudaType
    result: CudaType
    compute: Compute
    scale: CudaType
    other: CudaType | None = None

    @property
    def right(self) -> CudaType:
        """Elements of our B."""
        return self.operand if self.other is None else self.other

    @property
    def dots_columns(self) -> bool:
        """True if the library wants both operands contiguous along k ("TN" format): one-byte types do."""
        return self.operand.itemsize == 1


_FLOATS = {
    "float32": CudaType.R_32F,
    "float16": CudaType.R_16F,
    "bfloat16": CudaType.R_16BF,
}
_FLOAT8 = {"float8_e4m3fn": CudaType.R_8F_E4M3, "float8_e5m2": CudaType.R_8F_E5M2}


def arithmetic_of(
    operand: str, result: str | None = None, *, right: str | None = None, tf32: bool = False
) -> Arithmetic | None:
    """Types of a product of elements named as NumPy and `ml_dtypes` name them; None where cuBLASLt has none.

    float16 and bfloat16 are added up in float32 and rounded once, or not at all where the result is float32. TF32
    rounds the operands of a float32 product to 10 bits of mantissa, so it is used only on demand. The two forms of
    float8 go together, but for e5m2 with itself, which no device multiplies.

    Args:
        operand: dtype name of A.
        result: dtype name of the result; where None that of the operands, for int8 int32, for float8 bfloat16.
        right: dtype name of B where it is another.
        tf32: Multiply float32 as TF32.
    """
    if operand in _FLOAT8 and (right or operand) in _FLOAT8:
        pair = _FLOAT8[operand], _FLOAT8[right or operand]
        if pair == (CudaType.R_8F_E5M2,) * 2 or (result or "bfloat16") not in _FLOATS:
            return None
        other = pair[1] if pair[1] != pair[0] else None
        return Arithmetic(pair[0], _FLOATS[result or "bfloat16"], Compute.F32, CudaType.R_32F, other)
    if right not in (None, operand):
        return None
    if operand == "float64" and result in (None, "float64"):
        return Arithmetic(CudaType.R_64F, CudaType.R_64F, Compute.F64, CudaType.R_64F)
    if operand == "int8" and result in (None, "int32"):
        return Arithmetic(CudaType.R_8I, CudaType.R_32I, Compute.I32, CudaType.R_32I)
    if operand == "float32" and result in (None, "float32"):
        compute = Compute.F32_FAST_TF32 if tf32 else Compute.F32
        return Arithmetic(CudaType.R_32F, CudaType.R_32F, compute, CudaType.R_32F)
    if operand in ("float16", "bfloat16") and result in (None, operand, "float32"):
        return Arithmetic(_FLOATS[operand], _FLOATS[result or operand], Compute.F32, CudaType.R_32F)
    return None
