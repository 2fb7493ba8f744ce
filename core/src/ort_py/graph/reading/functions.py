"""Model-local functions: the size of the expanded model, recursion, and opsets that are not imported.

`check_functions` answers before anything is expanded, in time proportional to the file, because the size of a
function's expansion is computed once and used for each call. Expanding itself is `build`'s work. It does not know the
functions that ONNX defines for operators: see `schema_functions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ort_py.errors import InconsistentGraph, InvalidGraph
from ort_py.graph.checking.problems import Problem
from ort_py.graph.reading.written import FunctionKey, WrittenFunction, WrittenNode, walk_written
from ort_py.limits import Budget


def check_functions(nodes: list[WrittenNode], functions: Mapping[FunctionKey, WrittenFunction], budget: Budget) -> None:
    """Refuse functions that call each other in a circle, or that make the model too large.

    Raises:
        InvalidGraph: A function calls itself, directly or through others; the circle is named.
        LimitError: The model would have too many nodes.
    """
    if not functions:
        return
    calls = {key: _calls(function.nodes, functions) for key, function in functions.items()}
    sizes: dict[FunctionKey, int] = {}
    for key in _callees_first(calls):
        own, callees = calls[key]
        sizes[key] = own + sum(times * sizes[callee] for callee, times in callees.items())
    own, callees = _calls(nodes, functions)
    budget.check_nodes(own + sum(times * sizes[callee] for callee, times in callees.items()))


def import_problems(
    nodes: list[WrittenNode], functions: Mapping[FunctionKey, WrittenFunction], imports: Mapping[str, int]
) -> Iterator[str]:
    """Report functions that use a domain without importing it, and calls of functions of domains that the model does
    not import.

    Args:
        nodes: Those of the main graph.
        functions: The model's functions.
        imports: The opsets that the model itself imports.
    """
    if not functions:
        return
    for function in functions.values():
        missing = {
            node.domain: node for node in walk_written(function.nodes) if node.domain not in function.opset_imports
        }
        for domain, node in missing.items():
            text = (
                f"Function '{function.title}' uses {domain or 'ai.onnx'} ({node.op_type}), but imports no opset of it."
            )
            yield Problem(text, InconsistentGraph)
    calls = {
        node.domain: node
        for node in walk_written(nodes)
        if node.domain not in imports and (node.domain, node.op_type, node.overload) in functions
    }
    for domain, node in calls.items():
        yield f"The model calls function '{domain}.{node.op_type}', but imports no opset of {domain}."


_Calls = tuple[int, Counter[FunctionKey]]


def _calls(nodes: list[WrittenNode], functions: Mapping[FunctionKey, WrittenFunction]) -> _Calls:
    """Number of nodes, calls counted, and which functions they call how often."""
    own = 0
    callees: Counter[FunctionKey] = Counter()
    for node in walk_written(nodes):
        own += 1
        key = (node.domain, node.op_type, node.overload)
        if key in functions:
            callees[key] += 1
    return own, callees


def _callees_first(calls: Mapping[FunctionKey, _Calls]) -> Iterable[FunctionKey]:
    """Functions in an order in which each comes after those it calls; depth first, with a stack of our own."""
    done: dict[FunctionKey, None] = {}
    for start in calls:
        if start in done:
            continue
        trail: dict[FunctionKey, None] = {start: None}
        stack = [(start, iter(calls[start][1]))]
        while stack:
            key, pending = stack[-1]
            callee = next((callee for callee in pending if callee not in done), None)
            if callee is None:
                stack.pop()
                trail.pop(key)
                done[key] = None
            elif callee in trail:
                circle = list(trail)
                raise _recursion([*circle[circle.index(callee) :], callee])
            else:
                trail[callee] = None
                stack.append((callee, iter(calls[callee][1])))
    return done


def _recursion(circle: list[FunctionKey]) -> InvalidGraph:
    names = [name for _, name, _ in circle]
    shown = names if len(names) <= 8 else [*names[:4], f"{len(names) - 6} more", *names[-2:]]
    return InvalidGraph(
        f"Function '{names[0]}' of the model calls itself.",
        why=f"the calls are {' -> '.join(shown)}",
        fix="ONNX functions cannot be recursive; use Loop or If.",
    )
