"""Parsing of a Gradient node: names are looked up, and all requirements of its specification are checked.

Used by `lowering`, before it changes anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from ort_py.dtypes import TensorType
from ort_py.errors import InvalidGraph
from ort_py.graph.ir import Node, Value
from ort_py.graph.typing.type_merge import element_conflict, shape_conflict
from ort_py.lazy_dataclass import dataclass
from ort_py.logs import lazy_logger
from ort_py.transforms.gradient.subgraph import between, is_float

_LOG = lazy_logger(__name__)

Find: TypeAlias = "Callable[[str], Value | None]"


@dataclass(frozen=True, slots=True)
class GradientRequest:
    """The request of one Gradient node.

    Attributes:
        fed: Value fed for each of them, `xs` first.
        outputs: Output for each of `xs`, None if it is not used.
    """

    node: Node
    xs: tuple[Value, ...]
    zs: tuple[Value, ...]
    fed: tuple[Value, ...]
    y: Value
    outputs: tuple[Value | None, ...]

    @property
    def leaves(self) -> tuple[Value, ...]:
        """All tensors named, `xs` first."""
        return self.xs + self.zs

    @property
    def asked(self) -> list[Value]:
        """The tensors of `xs` whose gradient is wanted."""
        return [value for value, output in zip(self.xs, self.outputs, strict=True) if output is not None]


def read_request(node: Node, find: Find) -> GradientRequest:
    """Read the request of a Gradient node.

    Args:
        find: Looks a value up by name, in the node's graph and around it.

    Raises:
        InvalidGraph: It contradicts its specification.
    """
    names = [tuple(str(name) for name in node.attributes.get(which, ())) for which in ("xs", "zs")]
    xs, zs = names
    if len(node.inputs) != len(xs) + len(zs) or any(value is None for value in node.inputs):
        given = sum(value is not None for value in node.inputs)
        raise InvalidGraph(
            f"Gradient '{node.name}' has {given} inputs for {len(xs)} xs and {len(zs)} zs.",
            where=node.location,
            why="each tensor named in xs and zs gets its value from the input in the same place",
            fix="Give it one input for each name, xs first.",
        )
    if len(node.outputs) > len(xs):
        raise InvalidGraph(
            f"Gradient '{node.name}' has {len(node.outputs)} outputs for {len(xs)} xs.",
            where=node.location,
            why="there is one gradient for each name in xs",
            fix="Remove the outputs behind, or name more tensors in xs.",
        )
    outputs = (*node.outputs, *[None] * (len(xs) - len(node.outputs)))
    request = GradientRequest(
        node,
        tuple([_named(node, "xs", name, find) for name in xs]),
        tuple([_named(node, "zs", name, find) for name in zs]),
        tuple([value for value in node.inputs if value is not None]),
        _named(node, "y", str(node.attributes["y"]), find),
        outputs,
    )
    _check_leaves(request)
    return request


def _named(node: Node, attribute: str, name: str, find: Find) -> Value:
    found = find(name)
    if found is None:
        raise InvalidGraph(
            f"Gradient '{node.name}' names '{name}' in {attribute}, which does not exist.",
            where=node.location,
            why="neither the graph of the node nor a graph around it has a value of that name",
            fix=f"Correct the attribute {attribute}.",
        )
    return found


def _check_leaves(request: GradientRequest) -> None:
    node, leaves = request.node, request.leaves
    twice = next((value for value, count in Counter(leaves).items() if count > 1), None)
    if twice is not None:
        raise InvalidGraph(
            f"Gradient '{node.name}' names '{twice.name}' more than once in xs and zs.",
            where=node.location,
            why="each of these tensors has one value, given by one input",
            fix="Name it once.",
        )
    first = [value for leaf in leaves if leaf.producer is not None for value in leaf.producer.reads()]
    read = {*first, *[value for one in between(first, ()) for value in one.reads()]}
    inner = next((leaf for leaf in leaves if leaf in read), None)
    if inner is not None:
        raise InvalidGraph(
            f"Gradient '{node.name}' names '{inner.name}' and a tensor that is computed from it.",
            where=node.location,
            why="xs and zs are independent variables: none may follow from another",
            fix="Leave one of them out.",
        )


def check_request_types(request: GradientRequest) -> None:
    """Compare types, which must be known at this point.

    Raises:
        InvalidGraph: A value is not a float tensor, or is fed with another type.
    """
    node = request.node
    for leaf, value in zip(request.leaves, request.fed, strict=True):
        known, given = leaf.type, value.type
        if known is not None and given is not None and element_conflict(given, known):
            raise InvalidGraph(
                f"Gradient '{node.name}' is fed {given} for '{leaf.name}', which is {known}.",
                where=node.location,
                why="the value takes the tensor's place, so its element type must be the same",
                fix="Put a Cast in front.",
            )
    for value in (*request.asked, request.y):
        if not is_float(value):
            raise InvalidGraph(
                f"Gradient '{node.name}' needs floating-point tensors; '{value.name}' is {value.type}.",
                where=node.location,
                why="only functions of real numbers have derivatives",
                fix="Name float tensors in xs and y; other inputs belong into zs.",
            )


def forget_wrong_shapes(request: GradientRequest) -> None:
    """Ignore declared shapes of gradients that cannot be: a gradient has the shape of its tensor."""
    for tensor, output in zip(request.xs, request.outputs, strict=True):
        if output is not None and isinstance(output.type, TensorType) and shape_conflict(tensor.type, output.type):
            _LOG.warning(
                "The model declares shape %s for value '%s', the gradient of '%s', which has shape %s; "
                "the declaration is ignored.",
                output.type.shape,
                output.name,
                tensor.name,
                getattr(tensor.type, "shape", None),
            )
            output.type = replace(output.type, shape=None)
