"""Scaled dot-product attention in one graph of cuDNN, for queries, keys and values of halves with their heads apart.

Says which problems cuDNN serves, makes their masks into a bias, and gives rows that see no key their zeros. It is
independent of operators; `attention` reads those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py_array.precision import widened
from ort_py_cuda.cudnn import graphs
from ort_py_cuda.cudnn.element_types import HALVES, type_name
from ort_py_cuda.cudnn.errors import Unsupported
from ort_py_cuda.cudnn.graphs import Sizes, Tensor
from ort_py_cuda.cudnn.plans import Plan, shared_plans
from ort_py_cuda.kernels.pictures import addresses, aligned

__all__ = ["FusedAttention", "causality"]

_REMEMBERED = 64
"""Shapes whose plan a node keeps; a dictionary that stops growing is safe to share between threads."""

_FEW = 16
"""Fewer queries than this are left to products of matrices: where a cache grows with each run, every run would need a
plan of its own, which takes longer to build than many runs."""

_HIDDEN = -65504.0
"""What hides a key: cuDNN makes NaN of infinities, and this is float16's lowest number. Its exponential is 0."""

_LARGEST_HEAD = 256


def causality(queries: int, keys: int, offset: int) -> str | None:
    """cuDNN's name for the causal frontier of queries at ``offset + i``; ``""`` if it hides nothing.

    Returns:
        ``"top_left"``, ``"bottom_right"`` or ``""``; None for a frontier that it does not have.
    """
    if offset + 1 >= keys:
        return ""
    if offset == 0:
        return "top_left"
    return "bottom_right" if offset + queries == keys else None


class FusedAttention:
    """The attention of one node, by shape.

    Args:
        ctx: Context of the node.
    """

    def __init__(self, ctx: KernelContext) -> None:
        self._ctx = ctx
        self._known: dict[Any, Plan | str] = {}

    @staticmethod
    def refusal(
        q: Array, k: Array, v: Array, *, causal: bool = False, offset: int = 0, masked: bool = False
    ) -> str | None:
        """Explain, from shapes alone, why cuDNN cannot be used for a problem, or return None. Called before anything is
        allocated.

        Args:
            q, k, v: As for a call, but of the keys and values only those that are new.
            causal: As for a call.
            offset: Keys before the new ones.
            masked: Whether there is a mask.
        """
        reason = _refusal(q, k, v)
        if reason is not None:
            return reason
        queries, keys = q.shape[2], offset + k.shape[2]
        frontier = causality(queries, keys, offset) if causal else ""
        if frontier is None:
            return f"queries that begin at position {offset} of {keys}"
        if frontier == "bottom_right" and (masked or queries > keys):
            return "a causal frontier behind a past, and a mask"
        return None

    def __call__(
        self,
        q: Array,
        k: Array,
        v: Array,
        *,
        scale: float,
        masks: Sequence[Array] = (),
        causal: bool = False,
        offset: int = 0,
        packed: bool = False,
    ) -> Array | str:
        """``softmax(q kᵀ · scale + masks) v``, or the reason why cuDNN does not serve it; ask `refusal` before.

        Args:
            q: Queries ``(batch, heads, length, size)``, any strides.
            k, v: Keys and values, of as many heads or a divisor of that.
            scale: Factor on the scores.
            masks: Boolean, False hiding a key, or numbers that are added, -inf hiding one.
            causal: Whether a query at ``offset + i`` sees keys up to there only.
            offset: See `causal`.
            packed: The result's form: ``(batch, length, heads · size)`` rather than as `q`.
        """
        frontier = (causality(q.shape[2], k.shape[2], offset) or "") if causal else ""
        xp = self._ctx.xp
        scores = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        bias = seen = None
        if masks:
            made = _bias(xp, masks, scores, q.dtype)
            if isinstance(made, str):
                return made
            bias, seen = made
        q, k, v = aligned(xp, *(x if x.strides[3] == x.itemsize else xp.ascontiguousarray(x) for x in (q, k, v)))
        (batch, heads, length), size = q.shape[:3], v.shape[3]
        shape = (batch, length, heads, size) if packed else (batch, heads, length, size)
        self._ctx.check_allocation(shape, q.dtype)
        y = xp.empty(shape, q.dtype)
        result = y.swapaxes(1, 2) if packed else y
        arrays = [q, k, v, *([bias] if bias is not None else []), result]
        plan = self._planned(arrays, bias is not None, scale, frontier)
        if isinstance(plan, str):
            return plan
        plan(xp, self._ctx.device.index, addresses(*arrays))
        if seen is not None:
            if frontier:
                seen = xp.logical_and(seen, xp.tril(xp.ones(scores[2:], xp.bool_), offset))
            # As bits: zero is the same in every type, and bfloat16 has no arithmetic.
            hidden = xp.logical_not(xp.any(seen, axis=-1, keepdims=True))
            xp.copyto(result.view(xp.uint16), xp.uint16(0), where=hidden)
        return y.reshape((batch, length, heads * size)) if packed else y

    def _planned(self, arrays: Sequence[Array], biased: bool, scale: float, frontier: str) -> Plan | str:
        key = (frontier, scale, *((x.shape, x.strides) for x in arrays))
        plan = self._known.get(key)
        if plan is None:
            names = ("q", "k", "v", *(("bias",) if biased else ()), "y")
            described = {name: _described(name, x) for name, x in zip(names, arrays, strict=True)}
            graph = graphs.attention(
                described["q"],
                described["k"],
                described["v"],
                described["y"],
                scale=scale,
                bias=described.get("bias"),
                causal=frontier,
            )
            try:
                plan = shared_plans().plan(self._ctx.xp, graph, self._ctx.device.index, addresses(*arrays))
            except Unsupported as refusal:
                plan = "; ".join((refusal.what, *refusal.why))
            if len(self._known) < _REMEMBERED:
                self._known[key] = plan
        return plan


def _described(name: str, x: Array) -> Tensor:
    strides: Sizes = tuple(step // x.itemsize for step in x.strides)
    return Tensor(name, tuple(x.shape), strides, type_name(x))


def _refusal(q: Array, k: Array, v: Array) -> str | None:
    """Explain why cuDNN does not support these operands, or return None."""
    shapes = f"{list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
    if type_name(q) not in HALVES or not q.dtype == k.dtype == v.dtype:
        return f"attention of {type_name(q)}: cuDNN has it for halves"
    if not q.ndim == k.ndim == v.ndim == 4 or 0 in (*q.shape, *k.shape, *v.shape):
        return f"operands {shapes}"
    if (q.shape[0], k.shape[1], k.shape[2], q.shape[3]) != (k.shape[0], *v.shape[1:3], k.shape[3]):
        return f"operands {shapes} that do not fit"  # the array library says how
    if v.shape[0] != q.shape[0] or q.shape[1] % k.shape[1]:
        return f"operands {shapes} that do not fit"
    if q.shape[2] < _FEW:
        return f"{q.shape[2]} queries"
    for size in (q.shape[3], v.shape[3]):
        if size % 8 or size > _LARGEST_HEAD:
            return f"heads of {size}: cuDNN has multiples of 8 up to {_LARGEST_HEAD}"
    return None


def _bias(xp: Any, masks: Sequence[Array], scores: Sizes, dtype: Any) -> tuple[Array, Array] | str:
    """The finite summand of the scores and the mask of visible keys, or the reason why there is none."""
    total = seen = None
    for mask in masks:
        if not 1 <= mask.ndim <= 4 or mask.shape[-1] != scores[3]:
            return f"a mask of shape {list(mask.shape)} for {scores[3]} keys"
        whole = widened(xp, mask).reshape((1,) * (4 - mask.ndim) + tuple(mask.shape))
        if whole.dtype.kind not in "fb" or any(n not in (1, m) for n, m in zip(whole.shape, scores, strict=True)):
            return f"a mask of {whole.dtype.name} of shape {list(mask.shape)} for scores {list(scores)}"
        shown = whole if whole.dtype == xp.bool_ else xp.greater(whole, -xp.inf)
        part = xp.where(shown, xp.float32(0) if whole.dtype == xp.bool_ else whole, xp.float32(_HIDDEN))
        total = part if total is None else xp.add(total, part)
        seen = shown if seen is None else xp.logical_and(seen, shown)
    assert total is not None  # the caller has a mask
    assert seen is not None
    total = xp.clip(total.astype(xp.float32), _HIDDEN, -_HIDDEN).astype(dtype)
    # Rows are never broadcast: cuDNN adds a bias to (batch or 1, heads or 1, queries, keys).
    return xp.ascontiguousarray(xp.broadcast_to(total, (*total.shape[:2], *scores[2:]))), seen
