"""Resize 10–19 and Upsample 1–10: nearest, linear and cubic, separable along the axes.

Each axis that changes size is resampled by itself: nearest picks positions, the others form weighted sums of a few
gathered slices (`resize_coordinates` has the positions and weights). No loop over pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.checks import normalized_axis, shape_error
from ort_py_array.parts import assign, by_parts, converted, rounded_by_parts, taken, widened_by_parts
from ort_py_array.precision import rounded
from ort_py_array.resize_coordinates import Axis, Sampling, nearest, weighted
from ort_py_array.two_forms import two_forms

__all__ = ["KERNELS", "resize", "upsample"]


def _sampling(ctx: KernelContext) -> Sampling:
    attributes = ctx.node.attributes
    # Resize 10 and Upsample say less: runtimes agree on asymmetric, and on the pixel below except when shrinking.
    first = ctx.node.since_version < 11
    sampling = Sampling(
        mode=attributes.get("mode", "nearest"),
        coordinates="asymmetric" if first else attributes.get("coordinate_transformation_mode", "half_pixel"),
        nearest="simple" if first else attributes.get("nearest_mode", "round_prefer_floor"),
        cubic=attributes.get("cubic_coeff_a", -0.75),
        exclude_outside=bool(attributes.get("exclude_outside", 0)),
        extrapolation=attributes.get("extrapolation_value", 0.0),
        antialias=bool(attributes.get("antialias", 0)),
    )
    if sampling.mode == "bilinear":
        sampling = sampling.with_mode("linear")
    sampling.check(ctx.node.location)
    return sampling


def _out_size(size: int, scale: float) -> int:
    return int(size * scale)


def resize(ctx: KernelContext) -> KernelCallable:
    """Resize 10–19: X, [roi,] scales, sizes → X resampled along `axes` (all of them by default).

    Any type for nearest; any but strings for linear and cubic, which are computed in float32 (doubles and complex
    numbers in their own type) and rounded once. Raises InvalidArgument for scales, sizes or roi that do not fit and for
    strings that cannot be interpolated, and LimitError through the context.
    """
    sampling = _sampling(ctx)
    attributes = ctx.node.attributes
    policy = attributes.get("keep_aspect_ratio_policy", "stretch")
    old = ctx.node.since_version < 11

    def run(x: Array, roi: Any = None, scales: Any = None, sizes: Any = None, *, out: Array | None = None) -> Array:
        if old:
            roi, scales = None, roi
        axes = [normalized_axis(a, x.ndim, ctx.node.location) for a in attributes.get("axes", ())]
        axes = axes or list(range(x.ndim))
        wanted = [int(s) for s in sizes.tolist()] if sizes is not None and sizes.size else None
        factors = [float(s) for s in scales.tolist()] if wanted is None and scales is not None else None
        _check(ctx, axes, wanted, factors)
        factor: float | None = None
        if wanted is not None and policy != "stretch":
            if 0 in [x.shape[axis] for axis in axes]:
                raise InvalidArgument(
                    f"Resize of shape {tuple(x.shape)} cannot keep an aspect ratio: an axis is empty.",
                    where=ctx.node.location,
                    fix="Feed an input without an empty axis, or leave the policy at 'stretch'.",
                )
            pick = min if policy == "not_larger" else max
            factor = pick(w / x.shape[a] for a, w in zip(axes, wanted, strict=True))
            wanted = [int(x.shape[a] * factor + 0.5) for a in axes]
        region = [float(r) for r in roi.tolist()] if roi is not None and sampling.crops else []
        if sampling.crops and len(region) != 2 * len(axes):
            raise InvalidArgument(
                f"roi has {len(region)} entries instead of {2 * len(axes)}; tf_crop_and_resize needs a start and an "
                "end for each axis.",
                where=ctx.node.location,
                fix="Feed roi with all starts, then all ends, between 0 and 1.",
            )
        plans = []
        for i, axis in enumerate(axes):
            size = x.shape[axis]
            start, end = (region[i], region[i + len(axes)]) if region else (0.0, 1.0)
            if wanted is not None:
                length = wanted[i]
                scale = factor or (length / size if size else 1.0)
            else:
                assert factors is not None
                scale = factors[i]
                length = _out_size(size, scale)
            plans.append(Axis(axis, size, length, scale, start, end))
        return _resampled(ctx, x, sampling, plans, out)

    return two_forms(ctx, run, known=_decided(ctx))


def _decided(ctx: KernelContext) -> bool:
    """Return whether all inputs that say how large the result is are known."""
    return all(ctx.constant(index) is not None for index, given in enumerate(ctx.node.inputs) if index and given)


def _check(ctx: KernelContext, axes: Sequence[int], sizes: list[int] | None, factors: list[float] | None) -> None:
    given: Sequence[float] | None = sizes if sizes is not None else factors
    name = "sizes" if sizes is not None else "scales"
    if given is None:
        raise InvalidArgument(
            "Neither scales nor sizes are given.", where=ctx.node.location, fix="Feed exactly one of them."
        )
    if len(given) != len(axes):
        raise InvalidArgument(
            f"{name} has {len(given)} entries for {len(axes)} axes.",
            where=ctx.node.location,
            fix="Give one entry for each axis, or name the axes in the attribute 'axes'.",
        )
    if any(not value > 0 for value in given) and (sizes is None or any(value < 0 for value in given)):
        raise InvalidArgument(
            f"{name} is {list(given)}; every entry must be positive.",
            where=ctx.node.location,
            fix="Scales and sizes must be above 0.",
        )


def upsample(ctx: KernelContext) -> KernelCallable:
    """Upsample 1 (two scales, of pictures), 7 (scales as attribute) and 9 to 10 (as input): as Resize 10.

    Version 10 only marks the operator as deprecated.
    """
    sampling = _sampling(ctx)
    attributes, first = ctx.node.attributes, ctx.node.since_version == 1
    attribute = (1.0, 1.0, attributes["height_scale"], attributes["width_scale"]) if first else attributes.get("scales")

    def run(x: Array, scales: Any = None, *, out: Array | None = None) -> Array:
        if first and x.ndim != 4:
            raise shape_error(
                "Upsample takes pictures of shape (n, c, h, w) before opset 7.", ctx.node.location, [x.shape]
            )
        factors = [
            float(s) for s in (attribute if attribute is not None else scales.reshape(-1)[: x.ndim + 1].tolist())
        ]
        _check(ctx, range(x.ndim), None, factors)
        plans = [
            Axis(axis, size, _out_size(size, factor), factor, 0.0, 1.0)
            for axis, (size, factor) in enumerate(zip(x.shape, factors, strict=True))
        ]
        return _resampled(ctx, x, sampling, plans, out)

    return two_forms(ctx, run, known=_decided(ctx))


def _resampled(ctx: KernelContext, x: Array, sampling: Sampling, plans: list[Axis], out: Array | None = None) -> Array:
    """Resample axis by axis: those that shrink most first, so that least is computed."""
    xp = ctx.xp
    changed = [plan for plan in plans if plan.changes(sampling)]
    shape = list(x.shape)
    for plan in changed:
        shape[plan.axis] = plan.out
    ctx.check_allocation(shape, x.dtype)
    if not changed:
        return rounded(x, x.dtype, out) if out is not None else x.copy()
    if 0 in shape:
        return xp.zeros(shape, x.dtype) if out is None else out
    if 0 in x.shape:
        raise InvalidArgument(
            f"An input of shape {list(x.shape)} has nothing to resample to {shape}.",
            where=ctx.node.location,
            fix="Feed an input without an empty axis, or ask for an empty result.",
        )
    dtype = x.dtype
    if sampling.mode != "nearest":
        x = _computable(ctx, x, sampling)
    outside = None
    ordered = sorted(changed, key=lambda plan: (plan.out / max(plan.size, 1), -plan.axis))
    target = out if out is not None and out.dtype == x.dtype else None
    for plan in ordered:
        x = _along(ctx, x, sampling, plan, target if plan is ordered[-1] else None)
        if sampling.crops:
            beyond = plan.outside(xp, sampling).reshape((-1,) + (1,) * (x.ndim - 1 - plan.axis))
            outside = beyond if outside is None else outside | beyond
    if outside is not None:
        x = xp.where(outside, x.dtype.type(sampling.extrapolation), x)
    return _converted(ctx, x, dtype, out)


def _computable(ctx: KernelContext, x: Array, sampling: Sampling) -> Array:
    """`x` in the type that sums are formed in: complex numbers in their own, integers and bools in float32."""
    if x.dtype.kind == "O":
        raise InvalidArgument(
            f"Strings have nothing between them for mode '{sampling.mode}'.",
            where=ctx.node.location,
            fix="Use the mode 'nearest'.",
        )
    if x.dtype.kind in "biu":
        return converted(ctx, x, ctx.xp.float32)
    return x if x.dtype.kind == "c" else widened_by_parts(ctx, x)


def _converted(ctx: KernelContext, x: Array, dtype: Any, out: Array | None) -> Array:
    """Back to the input's type: integers are cut off towards zero within their range, as a C++ cast does."""
    xp = ctx.xp
    if x.dtype == dtype or dtype.kind not in "iu":
        return rounded_by_parts(ctx, x, dtype, out)
    info = xp.iinfo(dtype)

    def step(target: Array, some: Array) -> None:
        target[...] = xp.clip(some, float(info.min), float(info.max)).astype(dtype)

    return by_parts(ctx, step, xp.empty(x.shape, dtype) if out is None else out, x)


def _along(ctx: KernelContext, x: Array, sampling: Sampling, plan: Axis, out: Array | None) -> Array:
    """One axis resampled, in `out` where that is given."""
    xp = ctx.xp
    if sampling.mode == "nearest":
        repeat, indices = nearest(xp, sampling, plan)
        if repeat:
            return _repeated(ctx, x, repeat, plan.axis, out)
        return taken(ctx, x, indices, plan.axis, out)

    def weigh(target: Array, some: Array, factors: Array) -> None:
        xp.multiply(some, factors, target)

    def add(target: Array, some: Array, factors: Array) -> None:
        xp.add(target, xp.multiply(some, factors, some), target)

    total = None
    for indices, weights in weighted(xp, sampling, plan):
        ctx.check_time()
        term, factor = taken(ctx, x, indices, plan.axis), weights.astype(x.dtype)
        factor = factor.reshape((-1,) + (1,) * (x.ndim - 1 - plan.axis))
        if total is None:
            total = by_parts(ctx, weigh, term if out is None else out, term, factor)
        else:
            by_parts(ctx, add, total, term, factor)
    return total


def _repeated(ctx: KernelContext, x: Array, times: int, axis: int, out: Array | None) -> Array:
    """Every position `times` times: strided copies along the last axis, where one copy would go pixel by pixel."""
    shape = (*x.shape[:axis], x.shape[axis] * times, *x.shape[axis + 1 :])
    y = ctx.xp.empty(shape, x.dtype) if out is None else out
    split = y.reshape((*x.shape[: axis + 1], times, *x.shape[axis + 1 :]))
    if axis < x.ndim - 1:
        assign(ctx, split, ctx.xp.expand_dims(x, axis + 1))
        return y
    for copy in range(times):
        assign(ctx, split[..., copy], x)
    return y


def _definition(name: str, factory: Any, since: int, until: int, host: frozenset[int]) -> KernelDef:
    return KernelDef(
        name,
        factory,
        since=since,
        until=until,
        out=True,
        host_inputs=host,
        implementation=f"ort_py_array.resize:{name.lower()}",
    )


_define = partial(_definition, host=frozenset((1, 2, 3)))

KERNELS = [
    _define("Resize", resize, 10, 19),
    _define("Upsample", upsample, 1, 10),
]
