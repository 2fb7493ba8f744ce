"""Names that occur once in a model.

ONNX lets sibling graphs use one name for different values; `ir` promises that a name means one value in the whole
model. The first to ask for a name gets it, so the main graph, which asks first, keeps its names.
"""

from __future__ import annotations

from ort_py.graph.ir import Model, walk


class Names:
    """Names taken so far. One for the values of a model while it is built or expanded."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    @classmethod
    def of(cls, model: Model) -> Names:
        names = cls()
        for graph in walk(model.graph):
            names._taken.update(value.name for value in graph.inputs)
            names._taken.update(graph.initializers)
            for node in graph.nodes:
                names._taken.update(value.name for value in node.outputs if value is not None)
        return names

    def free(self, wanted: str) -> str:
        """`wanted` where it is free, else with a number behind it; others may take it yet."""
        if wanted not in self._taken:
            return wanted
        number = self._next.get(wanted, 1)
        while (name := f"{wanted}_{number}") in self._taken:
            number += 1
        # Remembered, so that a thousand copies of a function do not count from 1 a thousand times.
        self._next[wanted] = number
        return name

    def take(self, wanted: str) -> str:
        """Reserve a name like the one that `free` returns."""
        name = self.free(wanted)
        self._taken.add(name)
        return name
