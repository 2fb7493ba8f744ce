"""Meaning of names: scopes, and the arguments that a function call gives to its body. Records for `build`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ort_py.graph.ir import Node, Value
from ort_py.graph.reading.written import WrittenGraph, WrittenNode
from ort_py.lazy_dataclass import dataclass
from ort_py.light_tuple import NamedTuple


class Scope:
    """Names known in one body; those of the graph around it are found through `outer`.

    A name may mean None: an optional parameter of a function that the call leaves out.
    """

    __slots__ = ("_places", "names", "outer")

    def __init__(self, outer: Scope | None = None) -> None:
        self.names: dict[str, Value | None] = {}
        self.outer = outer
        self._places: dict[str | Value, int] | None = None

    def find(self, name: str) -> Value | None:
        """Look up the value of a name in this scope."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        raise KeyError(name)

    def redefines(self, name: str, owner: Node) -> bool:
        """Return whether a name that nodes write here is defined in a body around before the node that holds this one.

        Args:
            name: The name.
            owner: That node.
        """
        scope, holder = self.outer, owner
        while scope is not None:
            if name in scope.names:
                return scope._precedes(name, holder)
            if holder.graph.owner is None:
                break
            scope, holder = scope.outer, holder.graph.owner
        return False

    def _precedes(self, name: str, node: Node) -> bool:
        """Return whether a name is defined before the results of a node: names are noted in the order of the file."""
        if self._places is None:
            self._places = {}
            for place, (known, value) in enumerate(self.names.items()):
                self._places[known] = place
                if value is not None:
                    self._places.setdefault(value, place)
        results = [self._places[value] for value in node.outputs if value is not None and value in self._places]
        return bool(results) and self._places.get(name, len(self.names)) < min(results)


@dataclass(frozen=True, slots=True)
class Context:
    """Values that the enclosing function gives to the nodes of its body.

    Attributes:
        arguments: Values for attributes that refer to the function's; None outside functions.
        prefix: Put before names.
        opsets: Opsets of domains for which the function has another than the model.
    """

    arguments: Mapping[str, Any] | None = None
    prefix: str = ""
    origin: str = ""
    opsets: Mapping[str, int] | None = None

    def named(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name


class Closure(NamedTuple):
    """A graph in an attribute: it sees the names where it was written, even when a function gets it as argument."""

    graph: WrittenGraph
    scope: Scope
    context: Context


class Body(NamedTuple):
    """Nodes on their way into a graph, with the values each of them writes."""

    rows: Iterator[tuple[WrittenNode, list[Value | None]]]
    scope: Scope
    context: Context


def enclosed(value: Any, scope: Scope, context: Context) -> Any:
    """The value of an attribute with its graphs as closures."""
    if isinstance(value, WrittenGraph):
        return Closure(value, scope, context)
    if isinstance(value, tuple) and value and isinstance(value[0], WrittenGraph):
        return tuple([Closure(item, scope, context) for item in value])
    return value


def with_model_names(attributes: dict[str, Any], scope: Scope) -> dict[str, Any]:
    """Attributes of Gradient, which name values, with the names that these have in the model: calls of functions and
    sibling graphs make them differ from those written."""

    def called(name: Any) -> Any:
        try:
            value = scope.find(name)
        except KeyError:
            return name
        return name if value is None else value.name

    found = dict(attributes)
    for attribute in ("xs", "zs", "y"):
        names = found.get(attribute)
        if isinstance(names, str):
            found[attribute] = called(names)
        elif isinstance(names, tuple):
            found[attribute] = tuple([called(name) for name in names])
    return found
