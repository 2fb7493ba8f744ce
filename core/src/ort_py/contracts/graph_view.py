"""A plug-in's view of a model: plain, frozen records and a read-only graph.

Providers get views when they are asked for claims and when a region is compiled; kernels get one `NodeSpec` when
they are bound. Nothing here can change a graph (see `transform` for that) and nothing here is engine code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ort_py.dtypes import DataType, Shape, TensorType, ValueType
from ort_py.errors import Location
from ort_py.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ort_py.contracts.function_body import FunctionBody
    from ort_py.contracts.region_weights import PackedForms, RegionWeight

Array: TypeAlias = Any
"""An array of whatever module its device uses: NumPy on the host, with `ml_dtypes` where NumPy has no type."""

AttributeValue: TypeAlias = Any
"""int, float, str, an array (tensor), a `ValueType`, a `GraphView` (graph), or a tuple of one of these.

Strings are decoded as UTF-8; bytes that are not UTF-8 stay bytes."""

WeightMode: TypeAlias = Literal["inline", "external", "reference"]


@dataclass(frozen=True, slots=True)
class ValueSpec:
    """One value of a graph.

    Attributes:
        name: Unique inside the graph and its nested graphs.
        type: Type and shape as far as known; None where inference found nothing.
        constant: Whether the value is an initializer that no caller can override.
    """

    name: str
    type: ValueType | None = None
    constant: bool = False

    @property
    def data_type(self) -> DataType | None:
        """Element type, or None if the value is not a tensor or its type is unknown."""
        return self.type.data_type if isinstance(self.type, TensorType) else None

    @property
    def shape(self) -> Shape | None:
        """Shape, or None if the value is not a tensor or its rank is unknown."""
        return self.type.shape if isinstance(self.type, TensorType) else None


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node, complete and frozen.

    Attributes:
        index: Position in its view's topological order: how claims name it.
        name: Name in the model; where the model gives none, a generated one.
        op_type: Operator, e.g. ``"Softmax"``.
        domain: Operator domain, ``""`` for ``ai.onnx``.
        since_version: Version of the operator's schema that is in force: ``Add`` at opset 21 is 14.
        opset_version: The model's opset of this domain.
        inputs: One entry a formal input; None where an optional input is absent. Trailing absent ones are cut.
        outputs: Likewise for outputs.
        attributes: Attributes the model sets (not the schema's defaults), by name.
        type_bindings: The schema's type variables as bound here, e.g. ``{"T": "tensor(float)"}``.
        path: Names of the enclosing control-flow nodes, outermost first.
        body: Computation of the node in other operators, where a transform made it of several nodes; else None. A
            provider that lacks the operator need not look: the engine puts the body in its place. `GraphView.function`
            shows it with versions and types.
    """

    index: int
    name: str
    op_type: str
    domain: str
    since_version: int
    inputs: tuple[ValueSpec | None, ...]
    outputs: tuple[ValueSpec | None, ...]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    type_bindings: Mapping[str, str] = field(default_factory=dict)
    opset_version: int = 0
    path: tuple[str, ...] = ()
    body: FunctionBody | None = None

    @property
    def location(self) -> Location:
        """Place of this node in the model, for error messages."""
        return Location(node=self.name, op_type=self.op_type, domain=self.domain, path=self.path)


class GraphView(ABC):
    """A graph, read-only. Implemented by the engine; plug-ins never create or keep one beyond the call."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the graph in the model."""

    @property
    @abstractmethod
    def nodes(self) -> Sequence[NodeSpec]:
        """Nodes in topological order; ``nodes[i].index == i``."""

    @property
    @abstractmethod
    def inputs(self) -> Sequence[ValueSpec]:
        """Values the caller feeds; overridable initializers come last."""

    @property
    @abstractmethod
    def outputs(self) -> Sequence[ValueSpec]:
        """Values the caller gets."""

    @abstractmethod
    def constant(self, name: str) -> Array | None:
        """A constant value as a read-only NumPy array, None where `name` is not constant. May map a file."""

    @abstractmethod
    def producer(self, name: str) -> int | None:
        """Index of the node that writes a value. None for inputs, constants and values of outer graphs."""

    @abstractmethod
    def consumers(self, name: str) -> Sequence[int]:
        """Indices of the nodes that read a value, nested graphs counted as their owning node."""

    def function(self, node: NodeSpec) -> GraphView | None:
        """The body of a node that carries one, as a graph. None for other nodes.

        Its nodes have versions, type bindings and attributes like those of any graph, its values have the names of the
        body and the types that follow from this node's inputs, and what is a constant for this node is one there. So
        whatever decides about the nodes of a graph can decide about a fused node. A view of its own each time the node
        belongs to another view; a node in it may carry a body again.

        Args:
            node: A node of this view.
        """
        return None

    @abstractmethod
    def region(self, nodes: Iterable[int]) -> RegionView:
        """The part made of these nodes, for compiling or for asking a vendor's parser."""


class RegionView(GraphView):
    """A connected or unconnected set of nodes with the values that cross its border as inputs and outputs."""

    @property
    @abstractmethod
    def initializers(self) -> Sequence[ValueSpec]:
        """Constants its nodes read."""

    @property
    def host_inputs(self) -> frozenset[str]:
        """Names of the inputs whose values are on the host when the region runs, wherever it runs itself.

        What the caller feeds, and what kernels leave on the host: results of Shape, sizes, axes. A compiled region may
        ask for such an input there (`CompiledRegion.host_inputs`) and read it without waiting for its device; an input
        that it does not ask for is copied to its device. All inputs where the region runs on the host.
        """
        return frozenset()

    @abstractmethod
    def weight(self, name: str) -> RegionWeight | None:
        """Return a constant that the compiled region may keep and take over, or None if `name` is not constant.

        Its array is read-only and must never be written to: sessions share it, and it may be mapped from a file.
        Nothing is read until the array is requested.
        """

    @property
    @abstractmethod
    def packed_forms(self) -> PackedForms:
        """The store in which the compiled region keeps packed forms of constants."""

    @abstractmethod
    def to_model(self, weights: WeightMode = "inline", *, standard: bool = False) -> bytes:
        """The region as a serialised ONNX model.

        Args:
            weights: ``inline`` puts constants into the bytes, ``external`` refers to the files they came from,
                ``reference`` makes those above 1 KiB inputs of the model, named as in `initializers`; what parsers
                look at, shapes and axes, stays in it.
            standard: Write nodes that carry a body as the nodes of that body, for readers that know ONNX's operators
                only; other nodes are written as they are.

        Raises:
            InvalidArgument: ``external`` where a constant has no file.
            LimitError: ``inline`` where the model would pass protobuf's 2 GiB.
        """
