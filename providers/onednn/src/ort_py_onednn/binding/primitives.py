"""The kinds of primitives that are used: a function for each, from layouts and parameters to a `Primitive`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.constants import FORWARD_INFERENCE, Algorithm, Argument, Query
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.primitive import UNSCALED, Function, Geometry, PostOp, Primitive, Scaling, Unimplemented
from ort_py_onednn.binding.remembered import remembered

__all__ = [
    "binary",
    "concatenation",
    "convolution",
    "eltwise",
    "handle_of",
    "layer_normalization",
    "local_response",
    "matmul",
    "pooling",
    "prelu",
    "reduction",
    "reorder",
    "resampling",
    "softmax",
]

_SRC = {Argument.SRC: (Query.SRC_MD, 0)}
_DST = {Argument.DST: (Query.DST_MD, 0)}
_WEIGHTS = {Argument.WEIGHTS: (Query.WEIGHTS_MD, 0)}
_BIAS = {Argument.BIAS: (Query.WEIGHTS_MD, 1)}


_FASTER_CONVOLUTIONS = {"brgconv_1x1:avx2": "jit_1x1:avx2"}
"""Code that oneDNN prefers, and other code for the same layouts that takes less time: on a Zen 3, for 11 pointwise
convolutions of SqueezeNet, Inception and ResNet-50, 0.85 to 1.0 of it, 0.93 on average, and 1.06 for one of them."""


def handle_of(desc: Desc | None) -> Any:
    """oneDNN's object for a layout; that of an absent operand is null."""
    return ffi.NULL if desc is None else desc.handle


def _begins_at_its_address(call: str, *descs: Desc) -> None:
    """Refuse parts of larger tensors for what oneDNN has code for that overlooks their offset, with wrong results."""
    if any(desc.has_offset for desc in descs):
        raise Unimplemented(f"{call}: a part of a larger tensor")


@remembered
def reorder(src: Desc, dst: Desc, posts: Sequence[PostOp] = (), scaling: Scaling = UNSCALED) -> Primitive:
    """Copy from one layout to another."""
    e = engine()

    def create(pd: Any, attr: Any) -> int:
        return int(e.c.dnnl_reorder_primitive_desc_create(pd, src.handle, e.handle, dst.handle, e.handle, attr))

    return Primitive("reorder", create, _SRC | _DST, posts, scaling)


@remembered
def convolution(
    src: Desc,
    weights: Desc,
    bias: Desc | None,
    dst: Desc,
    geometry: Geometry,
    posts: Sequence[PostOp] = (),
    scaling: Scaling = UNSCALED,
    *,
    transposed: bool = False,
) -> Primitive:
    """Convolution or its transpose; paddings are those of the convolution."""
    _begins_at_its_address("convolution", src, weights, dst)
    strides, dilations, begin, end = geometry
    e = engine()
    call, algorithm = (
        (e.c.dnnl_deconvolution_forward_primitive_desc_create, Algorithm.DECONVOLUTION_DIRECT)
        if transposed
        else (e.c.dnnl_convolution_forward_primitive_desc_create, Algorithm.CONVOLUTION_DIRECT)
    )
    gaps = [dilation - 1 for dilation in dilations]
    inner = math.prod(weights.dims) // max(1, dst.dims[1])
    misread = Argument.SRC in scaling.zero_points and (transposed or _is_unusual(src, weights, geometry))

    def made(source: Desc, target: Desc, avoids: Callable[[str], bool] | None) -> Primitive:
        def create(pd: Any, attr: Any) -> int:
            return int(
                call(
                    pd,
                    e.handle,
                    FORWARD_INFERENCE,
                    algorithm,
                    source.handle,
                    weights.handle,
                    handle_of(bias),
                    target.handle,
                    list(strides),
                    gaps,
                    list(begin),
                    list(end),
                    attr,
                )
            )

        arguments = _SRC | _WEIGHTS | _BIAS | _DST
        return Primitive("convolution", create, arguments, posts, scaling, each=inner, avoids=avoids)

    found = made(src, dst, _has_tiles if misread else None)
    faster = _FASTER_CONVOLUTIONS.get(found.implementation)
    if faster is not None:
        with contextlib.suppress(Unimplemented):
            return made(found.arguments[Argument.SRC], found.arguments[Argument.DST], lambda name: name != faster)
    return found


def _has_tiles(implementation: str) -> bool:
    return "amx" in implementation


def _is_unusual(src: Desc, weights: Desc, geometry: Geometry) -> bool:
    """Return whether a convolution has dilations, pads by more than half its kernel, or has a kernel that is larger
    than its picture.

    The code for AMX of oneDNN 3.2 counts what the padding adds to integers with a zero point for a window that leaves
    the picture at one side only. For others it reads and writes outside of its own memory.
    """
    rank = len(src.dims) - 2
    sizes, kernel = src.dims[2:], weights.dims[-rank:]
    _, dilations, begin, end = geometry
    return any(
        (before or after) and (dilation != 1 or max(before, after) > width // 2 or width > size)
        for size, width, dilation, before, after in zip(sizes, kernel, dilations, begin, end, strict=True)
    )


@remembered
def matmul(
    src: Desc,
    weights: Desc,
    bias: Desc | None,
    dst: Desc,
    posts: Sequence[PostOp] = (),
    scaling: Scaling = UNSCALED,
    *,
    few_rows: bool = False,
) -> Primitive:
    """Product of matrices, leading dimensions broadcast; all of one rank, at least 2.

    Args:
        few_rows: Whether to pass over code for AMX, whose tiles have 16 rows. Its layouts of weights are others.

    Raises:
        Unimplemented: There is none; or a layout begins behind its address, which some code of oneDNN overlooks.
    """
    _begins_at_its_address("matmul", src, weights, dst)
    e = engine()

    def create(pd: Any, attr: Any) -> int:
        return int(
            e.c.dnnl_matmul_primitive_desc_create(
                pd, e.handle, src.handle, weights.handle, handle_of(bias), dst.handle, attr
            )
        )

    avoids = _has_tiles if few_rows else None
    return Primitive("matmul", create, _SRC | _WEIGHTS | _BIAS | _DST, posts, scaling, each=src.dims[-1], avoids=avoids)


@remembered
def eltwise(function: Function, src: Desc, dst: Desc, posts: Sequence[PostOp] = ()) -> Primitive:
    """A function of one argument; may work in place."""
    e = engine()

    def create(pd: Any, attr: Any) -> int:
        return int(
            e.c.dnnl_eltwise_forward_primitive_desc_create(
                pd,
                e.handle,
                FORWARD_INFERENCE,
                function.algorithm,
                src.handle,
                dst.handle,
                function.alpha,
                function.beta,
                attr,
            )
        )

    return Primitive("eltwise", create, _SRC | _DST, posts, algorithm=function.algorithm)


@remembered
def binary(
    algorithm: int,
    src0: Desc,
    src1: Desc,
    dst: Desc,
    posts: Sequence[PostOp] = (),
    scaling: Scaling = UNSCALED,
) -> Primitive:
    """A function of two arguments of one rank, the second of which broadcasts; may write over the first."""
    e = engine()

    def create(pd: Any, attr: Any) -> int:
        return int(
            e.c.dnnl_binary_primitive_desc_create(pd, e.handle, algorithm, src0.handle, src1.handle, dst.handle, attr)
        )

    return Primitive("binary", create, _SRC | {Argument.SRC_1: (Query.SRC_MD, 1)} | _DST, posts, scaling, algorithm)


@remembered
def softmax(src: Desc, dst: Desc, axis: int, posts: Sequence[PostOp] = (), *, logarithm: bool = False) -> Primitive:
    """Softmax or its logarithm along one axis."""
    e = engine()
    algorithm = Algorithm.SOFTMAX_LOG if logarithm else Algorithm.SOFTMAX_ACCURATE

    def create(pd: Any, attr: Any) -> int:
        return int(
            e.c.dnnl_softmax_forward_primitive_desc_create(
                pd, e.handle, FORWARD_INFERENCE, algorithm, src.handle, dst.handle, axis, attr
            )
        )

    return Primitive("softmax", create, _SRC | _DST, posts)


@remembered
def pooling(
    algorithm: int,
    src: Desc,
    dst: Desc,
    kernel: Sequence[int],
    geometry: Geometry,
    posts: Sequence[PostOp] = (),
) -> Primitive:
    """Maximum or average of windows."""
    strides, dilations, begin, end = geometry
    e = engine()
    gaps = [dilation - 1 for dilation in dilations]

    def create(pd: Any, attr: Any) -> int:
        return int(
            e.c.dnnl_pooling_forward_primitive_desc_create(
                pd,
                e.handle,
                FORWARD_INFERENCE,
                algorithm,
                src.handle,
                dst.handle,
                list(strides),
                list(kernel),
                gaps,
                list(begin),
                list(end),
                attr,
            )
        )

    return Primitive("pooling", create, _SRC | _DST, posts, algorithm=algorithm, each=math.prod(kernel))


@remembered
def reduction(algorithm: int, src: Desc, dst: Desc, posts: Sequence[PostOp] = ()) -> Primitive:
    """Reduce the dimensions that are 1 in `dst`."""
    _begins_at_its_address("reduction", src, dst)
    e = engine()

    def create(pd: Any, attr: Any) -> int:
        return int(
            e.c.dnnl_reduction_primitive_desc_create(pd, e.handle, algorithm, src.handle, dst.handle, 1.0, 0.0, attr)
        )

    return Primitive("reduction", create, _SRC | _DST, posts, algorithm=algorithm)


@remembered
def resampling(
    algorithm: int, src: Desc, dst: Desc, factors: Sequence[float], posts: Sequence[PostOp] = ()
) -> Primitive:
    """Change spatial sizes; pixels have their centres at one half."""
    e = engine()
    scale = ffi.new("float[]", list(factors))

    def create(pd: Any, attr: Any) -> int:
        return int(
            e.c.dnnl_resampling_forward_primitive_desc_create(
                pd, e.handle, FORWARD_INFERENCE, algorithm, scale, src.handle, dst.handle, attr
            )
        )

    return Primitive("resampling", create, _SRC | _DST, posts)


@remembered
def concatenation(srcs: Sequence[Desc], dst: Desc, axis: int) -> Primitive:
    """Join along an axis."""
    e = engine()
    handles = ffi.new("md_t[]", [src.handle for src in srcs])

    def create(pd: Any, attr: Any) -> int:
        return int(e.c.dnnl_concat_primitive_desc_create(pd, e.handle, dst.handle, len(srcs), axis, handles, attr))

    places = {Argument.MULTIPLE_SRC + index: (Query.SRC_MD, index) for index in range(len(srcs))}
    return Primitive("concat", create, places | _DST, ())


@remembered
def layer_normalization(src: Desc, dst: Desc, epsilon: float, flags: int, posts: Sequence[PostOp] = ()) -> Primitive:
    """Normalise the last dimension; the arguments of `flags` are added to what it wants."""
    _begins_at_its_address("layer normalization", src, dst)
    e = engine()

    def create(pd: Any, attr: Any) -> int:
        return int(
            e.c.dnnl_layer_normalization_forward_primitive_desc_create(
                pd, e.handle, FORWARD_INFERENCE, src.handle, dst.handle, ffi.NULL, epsilon, flags, attr
            )
        )

    made = Primitive("layer normalization", create, _SRC | _DST, posts)
    vector = Desc.plain(src.dims[-1:])
    made.arguments |= {code: vector for bit, code in ((2, Argument.SCALE), (4, Argument.SHIFT)) if flags & bit}
    return made


@remembered
def prelu(src: Desc, weights: Desc, dst: Desc) -> Primitive:
    """x where it is positive, else the weight times x; weights broadcast."""
    e = engine()

    def create(pd: Any, attr: Any) -> int:
        return int(
            e.c.dnnl_prelu_forward_primitive_desc_create(
                pd, e.handle, FORWARD_INFERENCE, src.handle, weights.handle, dst.handle, attr
            )
        )

    return Primitive("prelu", create, _SRC | _WEIGHTS | _DST, ())


@remembered
def local_response(src: Desc, dst: Desc, size: int, alpha: float, beta: float, k: float) -> Primitive:
    """Local response normalisation across channels."""
    e = engine()

    def create(pd: Any, attr: Any) -> int:
        return int(
            e.c.dnnl_lrn_forward_primitive_desc_create(
                pd,
                e.handle,
                FORWARD_INFERENCE,
                Algorithm.LRN_ACROSS_CHANNELS,
                src.handle,
                dst.handle,
                size,
                alpha,
                beta,
                k,
                attr,
            )
        )

    return Primitive("local response normalization", create, _SRC | _DST, (), each=min(size, src.dims[1]))
