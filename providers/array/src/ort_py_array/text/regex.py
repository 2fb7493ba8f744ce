"""RegexFullMatch, and regular expressions in linear time for whoever needs them: RE2's own package, or an error.

Patterns come with models and texts from anywhere, so an engine that backtracks (Python's `re`) could be kept busy for
ever, and would read some patterns differently. RE2 is an optional dependency: it is looked for when a node is bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np  # strings exist on the host only

from ort_py.contracts.graph_view import Array, NodeSpec
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument, InvalidGraph
from ort_py.errors import NotImplemented as NotSupported

__all__ = ["KERNELS", "compiled", "matching", "regex_full_match"]


def compiled(node: NodeSpec, pattern: str, *, longest: bool = False) -> Any:
    """A pattern of RE2's syntax, compiled.

    Args:
        node: The node that asks.
        pattern: The pattern.
        longest: Whether a match is the longest at its place, else the first in the pattern's order.

    Raises:
        NotImplemented: RE2's package is not installed.
        InvalidGraph: The pattern is not RE2's syntax, or is too large.
    """
    try:
        library = import_module("re2")
        options = library.Options()
    except Exception as error:  # a missing shared library is an OSError, another package of that name lacks Options
        raise NotSupported(
            "Regular expressions need RE2, which is not installed.",
            where=node.location,
            why=str(error),
            fix='Install it: pip install "ort-py-cpu[regex]".',
        ) from error
    options.log_errors = False
    options.longest_match = longest
    try:
        return library.compile(pattern, options)
    except (library.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else error
        raise InvalidGraph(
            f"The pattern {pattern[:100]!r} is not a regular expression of RE2.",
            where=node.location,
            why=reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason),
            fix="RE2's syntax is at https://github.com/google/re2/wiki/Syntax: it has no look-around or references.",
        ) from error


_AT_A_TIME = 1 << 12
"""Texts between two looks at the clock."""


_LONG = 1 << 18
"""Characters from which on the time of one text is estimated."""

_SAMPLE = 1 << 16
"""Characters of such a text that are read for the estimate."""


def _in_time(ctx: KernelContext, function: Callable[[str], Any], text: str) -> Any:
    if len(text) > _LONG:  # RE2 takes time in proportion to the text, and nothing interrupts it
        begun = time.perf_counter()
        function(text[:_SAMPLE])
        ctx.check_time((time.perf_counter() - begun) * len(text) / _SAMPLE)
    return function(text)


def matching(ctx: KernelContext, function: Callable[[str], Any], texts: list[str]) -> list[Any]:
    """`function` of each text; the clock is looked at now and then.

    Raises:
        InvalidArgument: A text has no UTF-8 form, in which RE2 reads it.
    """
    try:
        found: list[Any] = []
        for start in range(0, len(texts), _AT_A_TIME):
            ctx.check_time()
            some = texts[start : start + _AT_A_TIME]
            if ctx.is_timed and max(map(len, some)) > _LONG:
                found += [_in_time(ctx, function, text) for text in some]
            else:
                found += map(function, some)
        return found
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            "A string has no UTF-8 form.",
            where=ctx.node.location,
            why=f"it holds the lone surrogate {error.object[error.start]!r}",
            fix="Feed strings of whole characters.",
        ) from error


def regex_full_match(ctx: KernelContext) -> KernelCallable:
    """RegexFullMatch 20: whether RE2 matches each whole string; bool of the input's shape."""
    node = ctx.node
    pattern = node.attributes.get("pattern")
    if pattern is None:
        raise InvalidGraph("The attribute pattern is missing.", where=node.location, fix="Give a pattern.")
    match = compiled(node, pattern).fullmatch

    def matches(text: str) -> bool:
        return match(text.encode()) is not None  # the package looks for places in characters in a `str`

    def run(x: Array) -> Array:
        texts = x.reshape(-1).tolist()
        different = list(set(texts))
        if 2 * len(different) <= len(texts):
            known = dict(zip(different, matching(ctx, matches, different), strict=True))
            found = [known[text] for text in texts]
        else:
            found = matching(ctx, matches, texts)
        return np.array(found, np.bool_).reshape(x.shape)

    return run


KERNELS: list[KernelDef] = [
    KernelDef(
        "RegexFullMatch",
        regex_full_match,
        since=20,
        strided=True,
        host_inputs=frozenset({0}),
        host_outputs=frozenset({0}),
        implementation=f"{__name__}:regex_full_match",
    )
]
