"""Finding a pattern at a node: all ways are tried, and the miss that came furthest gives the reason.

Comes after `pattern`, before `pattern_rule`. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ort_py.contracts.pattern import Const, Maybe, OneOf, Op, Pattern, Var
from ort_py.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ort_py.contracts.graph_view import Array, NodeSpec, ValueSpec
    from ort_py.contracts.transform import GraphEditor

_TOLERANCE = 1e-5
"""Relative difference that a constant may have from the number in a pattern: exporters round."""


@dataclass(frozen=True, slots=True)
class Match:
    """The result of a successful match.

    Attributes:
        anchor: The last node.
        nodes: All nodes of the pattern, the anchor last.
        graph: The graph they are in.
    """

    anchor: NodeSpec
    nodes: tuple[NodeSpec, ...]
    graph: GraphEditor
    _values: Mapping[str, ValueSpec | None]
    _nodes: Mapping[object, NodeSpec]

    def __getitem__(self, name: str) -> ValueSpec:
        """The value captured under a name.

        Raises:
            KeyError: There is none: the pattern has no such name, or the input is absent.
        """
        value = self._values[name]
        if value is None:
            raise KeyError(name)
        return value

    def get(self, name: str) -> ValueSpec | None:
        """The value captured under a name, None where the input is absent or in another alternative."""
        return self._values.get(name)

    def name(self, name: str) -> str:
        """Name of the value captured under a name, ``""`` where it is absent: what a template wants."""
        value = self._values.get(name)
        return "" if value is None else value.name

    def node(self, name: str) -> NodeSpec | None:
        """The node captured under a name, or None if it is missing or belongs to another alternative."""
        return self._nodes.get(name)

    def array(self, name: str) -> Array | None:
        """The constant captured under a name."""
        return self.graph.constant(self._values.get(name))

    @property
    def result(self) -> str:
        """Name of the anchor's first output: what the replacement has to write."""
        output = self.anchor.outputs[0]
        return "" if output is None else output.name


@dataclass(frozen=True, slots=True)
class Miss:
    """The reason why a pattern does not fit.

    Attributes:
        reason: Obstacle to the match, where matching came furthest.
        near: Whether so much fits that a user may ask why the rest does not.
    """

    reason: str = ""
    near: bool = False


_MISS = Miss()
"""Nothing fits, and there is nothing to report: the answer at most nodes."""


@dataclass(frozen=True, slots=True)
class _State:
    values: dict[str, ValueSpec | None]
    nodes: dict[object, NodeSpec]
    exposed: tuple[str, ...] = ()


def find_match(
    pattern: Op, anchor: NodeSpec, graph: GraphEditor, accept: Callable[[Match], str] | None = None
) -> Match | Miss:
    """Match a pattern with a node as its last one.

    Args:
        pattern: The pattern.
        anchor: The node.
        graph: The graph it is in.
        accept: Says why a match will not do, ``""`` where it will; another way to match is tried then.
    """
    if anchor.op_type not in pattern.op_types or anchor.domain != pattern.domain:
        return _MISS
    matcher = _Matcher(graph)
    if not matcher.may_begin(pattern, anchor):
        return _MISS
    for state in matcher.node(pattern, anchor, _State({}, {})):
        reason = matcher.read_elsewhere(state, anchor)
        if not reason:
            found = Match(anchor, _anchor_last(state.nodes), graph, state.values, state.nodes)
            reason = accept(found) if accept is not None else ""
            if not reason:
                return found
        matcher.miss(len(state.nodes) + 1, reason)
    if matcher.progress < 2:
        return Miss(matcher.reason)
    return Miss(matcher.reason, matcher.progress >= (pattern.size() + 1) // 2)


def _anchor_last(nodes: Mapping[object, NodeSpec]) -> tuple[NodeSpec, ...]:
    # The anchor was entered first; two patterns may have found one node.
    return tuple({node.name: node for node in reversed(list(nodes.values()))}.values())


class _Matcher:
    """Tries one pattern at one place; remembers the miss that came furthest."""

    def __init__(self, graph: GraphEditor) -> None:
        self._graph = graph
        self.progress = 0
        self.reason = ""

    def miss(self, progress: int, reason: str) -> None:
        """One way to match has failed."""
        if progress > self.progress:
            self.progress, self.reason = progress, reason

    def value(self, pattern: Pattern, value: ValueSpec | None, state: _State, where: str) -> Iterator[_State]:
        """All ways in which a value fits."""
        if isinstance(pattern, Op):
            yield from self._computed(pattern, value, state, where)
        elif isinstance(pattern, Var):
            yield from self._var(pattern, value, state, where)
        elif isinstance(pattern, OneOf):
            for alternative in pattern.alternatives:
                yield from self.value(alternative, value, state, where)
        elif isinstance(pattern, Maybe):
            yield from self._computed(pattern.op, value, state, where)
            yield from self.value(pattern.op.inputs[0], value, state, where)
        elif pattern is None:
            if value is None:
                yield state
            else:
                self.miss(len(state.nodes), f"{where} is not absent")
        else:
            constant = pattern if isinstance(pattern, Const) else Const(value=pattern)
            yield from self._const(constant, value, state, where)

    def _computed(self, pattern: Op, value: ValueSpec | None, state: _State, where: str) -> Iterator[_State]:
        node = self._graph.producer(value)
        if node is None or value is None:
            self.miss(len(state.nodes), f"{where} is computed by no {pattern.title}")
            return
        known = state.nodes.get(pattern.key)
        output = node.outputs[pattern.output] if pattern.output < len(node.outputs) else None
        if output is None or output.name != value.name:
            self.miss(len(state.nodes), f"{where} is not output {pattern.output} of {node.op_type} '{node.name}'")
        elif known is not None:
            if known.name == node.name:
                yield state
            else:
                self.miss(len(state.nodes), f"{where} comes from '{node.name}', not from '{known.name}'")
        elif node.op_type not in pattern.op_types or node.domain != pattern.domain:
            self.miss(len(state.nodes), f"{where} is computed by {node.op_type} '{node.name}', not by {pattern.title}")
        else:
            yield from self.node(pattern, node, state)

    def node(self, pattern: Op, node: NodeSpec, state: _State) -> Iterator[_State]:
        """All ways in which a node of the right operator fits."""
        title = f"{node.op_type} '{node.name}'"
        nodes = {**state.nodes, pattern.key: node}
        exposed = (*state.exposed, node.name) if pattern.exposed else state.exposed
        state = _State(state.values, nodes, exposed)
        for name, wanted in pattern.attributes.items():
            if node.attributes.get(name) != wanted:
                self.miss(len(nodes), f"attribute {name} of {title} is {node.attributes.get(name)!r}, not {wanted!r}")
                return
        if pattern.where is not None and not self._holds(pattern.where(node), title, state):
            return
        count = len(pattern.inputs)
        if len(node.inputs) > count and not pattern.rest:
            self.miss(len(nodes), f"{title} has {len(node.inputs)} inputs, not {count}")
            return
        given = _padded(node.inputs, count)
        first = len(nodes) == 1
        if not first or self._promising(pattern, given):
            yield from self._inputs(pattern.inputs, given, state, title)
        if pattern.commutative and (not first or self._promising(pattern, given[::-1])):
            yield from self._inputs(pattern.inputs, given[::-1], state, title)

    def may_begin(self, pattern: Op, anchor: NodeSpec) -> bool:
        """Return whether more than the anchor may fit, without a look at the anchor itself."""
        given = _padded(anchor.inputs, len(pattern.inputs))
        if self._promising(pattern, given):
            return True
        return pattern.commutative and self._promising(pattern, given[::-1])

    def _promising(self, op: Op, values: tuple[ValueSpec | None, ...]) -> bool:
        """Return whether more than the anchor may fit. Most nodes fail here, at no cost and with nothing to report."""
        if not any(op.producers):
            return True
        for producers, pattern, value in zip(op.producers, op.inputs, values, strict=True):
            if producers is not None:
                node = None if value is None or value.constant else self._graph.producer(value)
                return node is not None and (node.op_type, node.domain) in producers
            if isinstance(pattern, OneOf | Maybe) or (isinstance(pattern, Var | Const) and pattern.where is not None):
                return True  # only trying can show which one matches
            if isinstance(pattern, Var):
                if value is None and not pattern.optional:
                    return False
            elif pattern is None:
                if value is not None:
                    return False
            elif value is None:
                if not (isinstance(pattern, Const) and pattern.optional):
                    return False
            elif not value.constant:
                return False
        return True

    def _inputs(
        self, patterns: tuple[Pattern, ...], values: tuple[ValueSpec | None, ...], state: _State, title: str
    ) -> Iterator[_State]:
        if not patterns:
            yield state
            return
        where = f"'{values[0].name}', which {title} reads," if values[0] is not None else f"an input of {title}"
        for found in self.value(patterns[0], values[0], state, where):
            yield from self._inputs(patterns[1:], values[1:], found, title)

    def _var(self, pattern: Var, value: ValueSpec | None, state: _State, where: str) -> Iterator[_State]:
        if value is None and not pattern.optional:
            self.miss(len(state.nodes), f"{where} is absent")
        elif value is None or pattern.where is None or self._holds(pattern.where(value), where, state):
            yield from self._bound(pattern.name, value, state, where)

    def _const(self, pattern: Const, value: ValueSpec | None, state: _State, where: str) -> Iterator[_State]:
        if value is None and pattern.optional:
            yield from self._bound(pattern.name, value, state, where)
            return
        if value is None or not value.constant:
            self.miss(len(state.nodes), f"{where} is {'absent' if value is None else 'not a constant'}")
            return
        if pattern.value is not None or pattern.where is not None:
            array = self._graph.constant(value)
            if array is None:
                self.miss(len(state.nodes), f"{where} is not a constant")
                return
            if pattern.value is not None and not _is_number(array, pattern.value):
                shown = array.item() if array.size == 1 else f"a tensor of shape {array.shape}"
                self.miss(len(state.nodes), f"{where} is {shown}, not {pattern.value}")
                return
            if pattern.where is not None and not self._holds(pattern.where(array), where, state):
                return
        yield from self._bound(pattern.name, value, state, where)

    def _bound(self, name: str, value: ValueSpec | None, state: _State, where: str) -> Iterator[_State]:
        if not name:
            yield state
        elif name not in state.values:
            yield _State({**state.values, name: value}, state.nodes, state.exposed)
        else:
            known = state.values[name]
            if (known.name if known is not None else None) == (value.name if value is not None else None):
                yield state
            else:
                self.miss(len(state.nodes), f"{where} is not '{known.name if known is not None else ''}'")

    def _holds(self, answer: bool | str, what: str, state: _State) -> bool:
        if answer is True:
            return True
        # A reason in words is one that the author of the rule wants to be read.
        words = f": {answer}" if isinstance(answer, str) else " does not fit"
        self.miss(len(state.nodes) + isinstance(answer, str), f"{what.removesuffix(',')}{words}")
        return False

    def read_elsewhere(self, state: _State, anchor: NodeSpec) -> str:
        """Name a result of the nodes to be replaced that is needed elsewhere; ``""`` if there is none."""
        names = {node.name for node in state.nodes.values()}
        captured = {value.name: name for name, value in state.values.items() if value is not None}
        for node in state.nodes.values():
            if node.name == anchor.name or node.name in state.exposed:
                continue
            for output in node.outputs:
                if output is None:
                    continue
                if output.name in captured:
                    # The new node reads the value that a Var matches.
                    return (
                        f"'{output.name}', which {node.op_type} '{node.name}' writes, is '{captured[output.name]}' too"
                    )
                if self._graph.is_output(output):
                    return f"the graph returns '{output.name}', which {node.op_type} '{node.name}' writes"
                outside = [one.name for one in self._graph.readers(output) if one.name not in names]
                if outside:
                    return f"'{output.name}', which {node.op_type} '{node.name}' writes, is read by '{outside[0]}' too"
        return ""


def _padded(values: tuple[ValueSpec | None, ...], count: int) -> tuple[ValueSpec | None, ...]:
    """The first `count` inputs of a node, as far as it has so many, and None for the others."""
    return values if len(values) == count else (*values[:count], *[None] * (count - len(values)))


def _is_number(array: Array, number: float) -> bool:
    if array.size != 1 or array.dtype.kind in "OSU":
        return False
    try:
        tolerance = max(_TOLERANCE, 4 * float(np.finfo(array.dtype).eps))
    except ValueError:  # not a floating type that NumPy has: integers are compared as they are
        tolerance = 0.0 if array.dtype.kind in "iub" else 0.01
    value = float(array.item())
    if abs(value - number) <= tolerance * abs(number):
        return True
    # A model of float16 that is computed in float32 still has the digits of float16.
    return array.dtype == np.float32 and abs(number) < 65504 and value == float(np.float16(number))
