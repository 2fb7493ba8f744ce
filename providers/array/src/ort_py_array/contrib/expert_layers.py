"""The feed-forward network of one expert: activations by name, gates, and the loop over the experts that have tokens.

`experts` gives the products (plain or dequantised weights), `routing` the tokens. Computes in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, TypeAlias

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass
from ort_py_array.activation import gelu, swish
from ort_py_array.contrib.routing import assignments, chosen_experts, sparse_mixer
from ort_py_array.precision import rounded, widened

__all__ = ["Experts", "Network", "Projection", "mixture"]

_HIDDEN_ELEMENTS = 1 << 22
"""Of the hidden layer that exist at once: 16 MiB."""

_LEAST_TOKENS = 512
"""Tokens that an expert takes at once whatever its width: weights are read, or unpacked, again for each such part."""

Projection: TypeAlias = Callable[[int, Array], Array]
"""``f(expert, x)`` → ``x @ W.T + bias`` of that expert, float32."""


@dataclass(frozen=True, slots=True)
class Network:
    """The attributes of a mixture that say what an expert computes and which ones are chosen.

    Attributes:
        activation: ``relu``, ``gelu`` (by tanh), ``silu``, ``swiglu`` or ``identity``.
        fusion: With ``swiglu``: 0 keeps gate and value in two projections; 1 has them in one, in turn; 2, in halves.
        alpha, beta, limit: Of ``swiglu``: ``min(g, limit) · sigmoid(alpha · g) · (clip(l, ±limit) + beta)``.
        k: Experts a token.
        normalized: Whether the weights of a token's experts add up to 1.
        sparse: Whether the sparse mixer chooses.
    """

    activation: str
    fusion: int
    alpha: float
    beta: float
    limit: float | None
    k: int
    normalized: bool
    sparse: bool

    @classmethod
    def of(cls, ctx: KernelContext) -> Network:
        """Read and checked from a node.

        Raises:
            InvalidArgument: An unknown activation or fusion, or a sparse mixer that does not choose two.
        """
        attributes, where = ctx.node.attributes, ctx.node.location
        network = cls(
            activation=attributes.get("activation_type", "relu"),
            fusion=attributes.get("swiglu_fusion", 0),
            alpha=attributes.get("activation_alpha", 1.0),
            beta=attributes.get("activation_beta", 0.0),
            limit=attributes.get("swiglu_limit"),
            k=attributes.get("k", 1),
            normalized=bool(attributes.get("normalize_routing_weights", 0)),
            sparse=bool(attributes.get("use_sparse_mixer", 0)),
        )
        if network.activation not in (*_SIMPLE, "swiglu"):
            raise InvalidArgument(
                f"activation_type is '{network.activation}'.",
                where=where,
                fix=f"Use one of {', '.join(sorted(_SIMPLE))}, swiglu.",
            )
        if network.fusion not in (0, 1, 2):
            raise InvalidArgument(
                f"swiglu_fusion is {network.fusion}.", where=where, fix="It must be 0 (not fused), 1 or 2."
            )
        if network.sparse and network.k != 2:
            raise InvalidArgument(
                f"The sparse mixer chooses two experts, but k is {network.k}.", where=where, fix="Set k to 2."
            )
        return network

    @property
    def fused(self) -> bool:
        """True if the first projection gives gate and value."""
        return self.activation == "swiglu" and self.fusion > 0

    def activated(self, xp: Any, first: Array, value: Array | None) -> Array:
        """The input of the last projection, from the result of the first projection and that of the third, if any."""
        if self.activation != "swiglu":
            _SIMPLE[self.activation](xp, first, first)
            return first if value is None else xp.multiply(first, value, out=first)
        gate = first
        if self.fusion == 1:
            gate, value = first[:, 0::2], first[:, 1::2]
        elif self.fusion == 2:
            half = first.shape[1] // 2
            gate, value = first[:, :half], first[:, half:]
        gate, value = xp.ascontiguousarray(gate), xp.ascontiguousarray(value)
        if self.limit is not None:
            gate, value = xp.minimum(gate, self.limit), xp.clip(value, -self.limit, self.limit)
        out = xp.empty(gate.shape, gate.dtype)
        swish(xp, gate, out, alpha=self.alpha)
        return xp.multiply(out, value + self.beta if self.beta else value, out=out)


def _relu(xp: Any, x: Array, out: Array) -> None:
    xp.maximum(x, 0, out=out)


def _identity(xp: Any, x: Array, out: Array) -> None:
    """Nothing to do: `out` is `x`."""


_SIMPLE: dict[str, Callable[..., None]] = {
    "relu": _relu,
    "gelu": partial(gelu, approximate="tanh"),
    "silu": swish,
    "identity": _identity,
}


@dataclass(frozen=True, slots=True)
class Experts:
    """The projections of all experts.

    Attributes:
        count: How many experts there are.
        width: Of the first projection's result.
        first: From the input to the hidden layer.
        second: From the hidden layer back.
        third: From the input to what the hidden layer is multiplied by, or None.
    """

    count: int
    width: int
    first: Projection
    second: Projection
    third: Projection | None


def mixture(
    ctx: KernelContext, network: Network, x: Array, scores: Any, experts: Experts, weights: Any | None = None
) -> Array:
    """The weighted sum of each token's experts.

    Args:
        ctx: Context of the node.
        network: What an expert computes.
        x: ``(tokens, hidden)`` or ``(batch, length, hidden)``.
        scores: Router scores on the host, ``(tokens, experts)``.
        experts: The projections.
        weights: Weights of all experts on the host, where they are not those of the scores.

    Returns:
        An array like `x`; sums are formed in float32.

    Raises:
        InvalidArgument: Scores or `k` do not fit.
    """
    xp, where = ctx.xp, ctx.node.location
    tokens = x.reshape((prod(x.shape[:-1]), x.shape[-1]))
    for name, given in (("router_probs", scores), ("router_weights", weights)):
        if given is not None and tuple(given.shape) != (tokens.shape[0], experts.count):
            raise InvalidArgument(
                f"{name} has shape {list(given.shape)} instead of [{tokens.shape[0]}, {experts.count}].",
                where=where,
                fix="Feed one row for each token and one column for each expert.",
            )
    if not 1 <= network.k <= experts.count:
        raise InvalidArgument(
            f"k is {network.k}, but there are {experts.count} experts.",
            where=where,
            fix="Choose at least 1 and at most all.",
        )
    wide = widened(xp, tokens)
    total = xp.zeros(tokens.shape, xp.float32)
    step = max(_LEAST_TOKENS, _HIDDEN_ELEMENTS // max(1, experts.width))
    if tokens.shape[0]:
        if network.sparse:
            chosen, shares = sparse_mixer(scores)
        else:
            chosen, shares = chosen_experts(scores, network.k, weights, normalized=network.normalized)
        for expert, members, share in assignments(chosen, shares, experts.count):
            for start in range(0, len(members), step):
                own = xp.asarray(members[start : start + step])
                rows = xp.take(wide, own, axis=0)
                value = None if experts.third is None else experts.third(expert, rows)
                hidden = network.activated(xp, experts.first(expert, rows), value)
                result = experts.second(expert, hidden)
                xp.multiply(result, xp.asarray(share[start : start + step]), out=result)
                # A token has an expert once at most, so no row is written twice.
                total[own] = total[own] + result
    return rounded(total, x.dtype).reshape(x.shape)
