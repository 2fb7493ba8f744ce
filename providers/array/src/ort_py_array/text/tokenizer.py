"""com.microsoft.Tokenizer: strings cut into characters, at separators, or into what an expression matches.

Expressions are RE2's, read by its own package (`regex`), with the longest match at each place. Texts are matched as
UTF-8, where each search begins where the last ended, so the work grows with the text. Host only: each string is cut by
itself, because no array form of cutting exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np  # strings exist on the host only

from ort_py.contracts.graph_view import Array, NodeSpec
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument, InvalidGraph
from ort_py_array.checks import LARGE
from ort_py_array.text.regex import compiled, matching
from ort_py_array.text.string_operators import text_array

__all__ = ["KERNELS", "tokenizer"]

_START, _END = "\x02", "\x03"

_Cut: TypeAlias = Callable[[str], Sequence[str]]
"""The tokens of one string."""


def tokenizer(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.Tokenizer-1: the tokens of each string on a new last axis, filled with `pad_value`.

    ``[C]`` gives ``[C, D]``, ``[N, C]`` gives ``[N, C, D]``; without elements ``[0]`` and ``[N, 0]``. With `mark`, each
    row of tokens begins with U+0002 and ends with U+0003, but where no string has a token, D is 0.
    """
    node = ctx.node
    pad: str = _needed(node, "pad_value")
    mark = bool(_needed(node, "mark"))
    cut = _cutter(node)

    def run(x: Array) -> Array:
        if x.ndim not in (1, 2):
            raise InvalidArgument(
                f"The input has shape {list(x.shape)}.", where=node.location, fix="Its shape must be [C] or [N, C]."
            )
        if not x.size:
            return np.empty((*x.shape[:-1], 0), object)
        rows = matching(ctx, cut, x.reshape(-1).tolist())
        most = max(map(len, rows))
        if most and mark:
            rows = [(_START, *row, _END) for row in rows]
            most += 2
        if x.size * most > LARGE:
            ctx.check_allocation((*x.shape, most), np.dtype(object))
        y = np.full((x.size, most), pad, object)
        counts = np.fromiter(map(len, rows), np.intp, len(rows))
        if most:
            y[np.arange(most) < counts[:, None]] = text_array([token for row in rows for token in row], (-1,))
        return y.reshape((*x.shape, most))

    return run


def _needed(node: NodeSpec, name: str) -> Any:
    value = node.attributes.get(name)
    if value is None:
        raise InvalidGraph(f"The attribute {name} is missing.", where=node.location, fix="The operator needs it.")
    return value


def _cutter(node: NodeSpec) -> _Cut:
    """The way to cut one string: by characters, by separators if there are any, else by the token expression."""
    least = _needed(node, "mincharnum")
    separators: Sequence[str] = node.attributes.get("separators", ())
    expression: str = node.attributes.get("tokenexp", "")
    if least < 1:
        raise InvalidGraph(f"mincharnum is {least}.", where=node.location, fix="It must be at least 1.")
    if not separators and not expression:
        raise InvalidGraph(
            "There are neither separators nor a token expression.",
            where=node.location,
            fix="Set the attribute 'separators' or 'tokenexp'.",
        )
    if tuple(separators) == ("",) or (not separators and expression == "."):
        if least > 1:
            raise InvalidGraph(
                f"mincharnum is {least}, and each character is a token.", where=node.location, fix="Set it to 1."
            )
        return str  # a string is the sequence of its characters
    if separators:
        return _at_separators([compiled(node, one, longest=True).search for one in separators], least)
    return _by_expression(compiled(node, expression, longest=True).search, least)


def _at_separators(searches: Sequence[Callable[..., Any]], least: int) -> _Cut:
    """Split at matches of the first expression, each piece at matches of the second, and so on; short pieces are left
    out.
    """

    def pieces(search: Callable[..., Any], data: bytes) -> Iterator[bytes]:
        start = 0
        for begin, end in _matches(search, data):
            yield data[start:begin]
            start = end if end > begin else _after(data, begin)
        yield data[start:]

    def cut(text: str) -> list[str]:
        row = [text.encode()]
        for search in searches:
            row = [piece for data in row for piece in pieces(search, data) if len(piece.decode()) >= least]
        return [piece.decode() for piece in row]

    return cut


def _by_expression(search: Callable[..., Any], least: int) -> _Cut:
    """All matches that have enough characters; after one that has not, the search goes on at the next character."""

    def cut(text: str) -> list[str]:
        if len(text) < least:
            return []
        data = text.encode()
        tokens: list[str] = []
        place = 0
        while place <= len(data) and (match := search(data, place)) is not None:
            begin, end = match.span()
            token = data[begin:end].decode()
            if len(token) >= least:
                tokens.append(token)
                place = end
            else:
                place = _after(data, begin)
        return tokens

    return cut


def _matches(search: Callable[..., Any], data: bytes) -> Iterator[tuple[int, int]]:
    """Matches from left to right; after an empty one, the search goes on behind the next character."""
    place = 0
    while place <= len(data) and (match := search(data, place)) is not None:
        begin, end = match.span()
        yield begin, end
        place = end if end > begin else _after(data, begin)


def _after(data: bytes, place: int) -> int:
    """First byte of the character after the one at `place`, in UTF-8."""
    lead = data[place] if place < len(data) else 0
    return place + 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)


KERNELS: list[KernelDef] = [
    KernelDef(
        "Tokenizer",
        tokenizer,
        domain="com.microsoft",
        strided=True,
        host_inputs=frozenset({0}),
        host_outputs=frozenset({0}),
        implementation=f"{__name__}:tokenizer",
    )
]
