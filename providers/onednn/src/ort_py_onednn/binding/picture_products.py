"""Products of a matrix and fixed weights, computed as pointwise convolutions: rows are pixels, columns are channels.

Where oneDNN has no product of matrices that reads packed weights, as on processors with AVX2, its `gemm` packs both
operands in each call. A convolution of 1 × 1 over the same bytes reads weights that were packed once. What is made here
looks like a product from outside: its arguments, but for the weights, have the layouts of matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ort_py_onednn.binding.constants import F32, FORWARD_INFERENCE, Algorithm, Argument, Query
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.primitive import UNSCALED, Operand, PostOp, Primitive, Unimplemented
from ort_py_onednn.binding.primitives import handle_of
from ort_py_onednn.binding.remembered import remembered

__all__ = ["FASTER", "picture_product", "weights_seen"]

FASTER = {"gemm:jit:f32": "jit_1x1:avx2"}
"""Code of products, and the code of convolutions that takes less time for any number of rows.

On a Zen 3, of the time of the first the second takes 0.65 to 0.85 for one row, a third for 2 to 5 rows, half for 16 and
64, and 0.45 to 0.95 for 128 to 1,500. Of the other code for AVX2, inner products and `brgconv_1x1` take 1.05 to 1.3 of
the second's time.
"""


def weights_seen(weights: Desc) -> Desc:
    """Return how weights (depth, columns), which lie in rows or in columns, are read as those of a convolution."""
    (depth, columns), (down, across) = weights.dims, weights.strides
    return Desc.strided((columns, depth, 1, 1), (across, down, 1, 1), weights.dtype)


@remembered
def picture_product(
    src: Desc, weights: Desc, bias: Desc | None, dst: Desc, wanted: str, posts: Sequence[PostOp] = ()
) -> Primitive:
    """Product of a plain matrix and weights of the dimensions (columns, depth, 1, 1), in a layout of their own.

    Args:
        src: (rows, depth), plain, float32.
        weights: Their layout, which may be left open.
        bias: One number a column, of any rank.
        dst: (rows, columns), plain, float32.
        wanted: oneDNN's name of the code.
        posts: What is done with the result; operands have the rank of matrices.

    Raises:
        Unimplemented: That code does not do this.
    """
    if not (src.is_plain and dst.is_plain) or {src.dtype, dst.dtype} != {F32} or src.has_offset or dst.has_offset:
        raise Unimplemented("a product of matrices that do not lie in rows")
    e = engine()
    source, target = Desc.picture(src.dims), Desc.picture(dst.dims)
    vector = None if bias is None else Desc.plain((dst.dims[1],))
    chain = [Operand(post.algorithm, _operand(post.desc)) if isinstance(post, Operand) else post for post in posts]
    ones, zeroes = [1, 1], [0, 0]

    def create(pd: Any, attr: Any) -> int:
        return int(
            e.c.dnnl_convolution_forward_primitive_desc_create(
                pd,
                e.handle,
                FORWARD_INFERENCE,
                Algorithm.CONVOLUTION_DIRECT,
                source.handle,
                weights.handle,
                handle_of(vector),
                target.handle,
                ones,
                zeroes,
                zeroes,
                zeroes,
                attr,
            )
        )

    arguments = {
        Argument.SRC: (Query.SRC_MD, 0),
        Argument.WEIGHTS: (Query.WEIGHTS_MD, 0),
        Argument.BIAS: (Query.WEIGHTS_MD, 1),
        Argument.DST: (Query.DST_MD, 0),
    }
    made = Primitive(
        "convolution", create, arguments, chain, UNSCALED, each=src.dims[1], avoids=lambda name: name != wanted
    )
    made.arguments |= {Argument.SRC: src, Argument.DST: dst}
    if bias is not None:
        made.arguments[Argument.BIAS] = bias
    for index, post in enumerate(posts):
        if isinstance(post, Operand):
            made.arguments[Argument.post_op(index)] = Desc.plain(post.desc.dims, post.desc.dtype)
    return made


def _operand(desc: Desc) -> Desc:
    """A matrix, a vector of columns or a number that is combined with the result, likewise.

    Raises:
        Unimplemented: It is a vector of rows, or a matrix in another order.
    """
    rows, columns = desc.dims
    if rows == 1:
        return Desc.plain((1, columns, 1, 1), desc.dtype)
    if columns == 1:
        raise Unimplemented("a vector of rows")
    return Desc.picture(desc.dims, desc.dtype)
