"""Kernels: the code that runs one operator, how it is declared, and what it is given.

A kernel is found by (provider, domain, operator, schema version, types). Its *factory* is called once for each node
when a session is planned and returns the callable that runs: positional arrays in, one array out (or a tuple, see
`KernelDef.outputs`). Everything that can be decided once is decided in the factory.

Imports no engine room. `ort_py.kernels` registers, matches and binds what is declared here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from ort_py.contracts.graph_view import Array, NodeSpec
from ort_py.devices import HOST, Device
from ort_py.dtypes import DataType
from ort_py.errors import operator_title

__all__ = [
    "ALL_FLOATS",
    "ALL_INTEGERS",
    "ALL_NUMERIC",
    "ALL_TENSORS",
    "KernelCallable",
    "KernelCatalog",
    "KernelContext",
    "KernelDef",
    "KernelFactory",
    "KernelLookup",
    "KernelMatch",
    "Subgraph",
    "SubgraphCallable",
    "kernel",
    "kernel_defs",
    "tensors",
]

KernelCallable: TypeAlias = Callable[..., Any]
"""``f(*inputs)``; where the `KernelDef` declares `out`, also ``f(*inputs, *outputs)``. Stateless, thread-safe.

It must not write to an input unless the `KernelDef` declares the pair in `inplace` and the input is passed as that
output, and must not return an input or a view of one unless it declares `views`."""

SubgraphCallable: TypeAlias = Callable[..., list[Any]]
"""A graph of the node, to be called: ``subgraph(*inputs)`` → list of outputs. See `KernelContext.subgraph`."""


def tensors(*data_types: DataType) -> frozenset[str]:
    """Type strings of dense tensors of these element types, for `KernelDef.types`."""
    return frozenset(f"tensor({data_type.onnx_name})" for data_type in data_types)


ALL_FLOATS = tensors(DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)
ALL_INTEGERS = tensors(
    DataType.INT8,
    DataType.INT16,
    DataType.INT32,
    DataType.INT64,
    DataType.UINT8,
    DataType.UINT16,
    DataType.UINT32,
    DataType.UINT64,
)
ALL_NUMERIC = ALL_FLOATS | ALL_INTEGERS
ALL_TENSORS = tensors(*(data_type for data_type in DataType if data_type is not DataType.UNDEFINED))


class KernelContext(ABC):
    """What a kernel may know and use. Made by the engine, one for each bound node; kept as long as the session.

    Attributes:
        node: The node this kernel was bound to.
        xp: The array module of the node's provider: its arrays come from here (NumPy on the CPU).
        device: Where inputs and outputs are, those that the `KernelDef` puts on the host excepted.
    """

    __slots__ = ("device", "node", "xp")

    def __init__(self, node: NodeSpec, xp: Any, device: Device = HOST) -> None:
        self.node = node
        self.xp = xp
        self.device = device

    @abstractmethod
    def constant(self, index: int) -> Array | None:
        """Input `index` as a host array if it is known when the session is planned, else None."""

    @abstractmethod
    def check_allocation(self, shape: Sequence[int], dtype: Any) -> None:
        """Ask before making an array whose size the *data* decides (Expand, Range, ConstantOfShape, Resize, …).

        Args:
            shape: Shape of the array to be made.
            dtype: Its NumPy dtype.

        Raises:
            LimitError: The array would pass the session's limits. Let it pass through.
        """

    @abstractmethod
    def parallel_for(self, rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        """Call ``fn(start, stop)`` over ``range(rows)`` in parts of at least `grain`, on the process-wide pool.

        Returns when all parts are done. Runs inline where the work is small or the thread count is one. An
        exception of a part is raised here.
        """

    @abstractmethod
    def random_generator(self, seed: float | None) -> Any:
        """A NumPy ``Generator``: seeded by `seed`, else by the session's seed (``set_seed``), else by the system."""

    @abstractmethod
    def subgraph(self, name: str) -> SubgraphCallable | None:
        """The graph that is the node's attribute `name`, to be called; None where the node has no such attribute.

        The kernel declares the graph in `KernelDef.subgraphs`; the engine then partitions and plans it like any other,
        with all it captures of the graphs around it. Ask in the factory, call in the kernel, as often as you like:
        ``subgraph(*inputs)`` gives a list with one entry an output. It runs in the frame of the kernel's call, so call
        it on the thread that the kernel was called on, never in `parallel_for`. What it returns may be shared with
        other values: never write to it. Let exceptions pass through: they name the node that failed.

        Raises:
            PluginError: The kernel does not declare it.
        """


KernelFactory: TypeAlias = Callable[[KernelContext], KernelCallable]

ShapeFunction: TypeAlias = Callable[..., Sequence[int] | None]
"""``f(*inputs)`` → the shape of an output; None where it cannot tell."""


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A graph attribute that a kernel runs through the engine, and where its values change hands.

    Attributes:
        name: The attribute.
        host_inputs: Inputs of the graph that the kernel gives on the host; the others are on its provider's device.
        host_outputs: Outputs of the graph that the kernel gets on the host.
    """

    name: str
    host_inputs: frozenset[int] = frozenset()
    host_outputs: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class KernelDef:
    """Declaration of a kernel.

    Identity is (domain, op_type, version range, types) inside one provider; the rest is for the planner. `out` and
    `inplace` are permissions: this core does not use them yet, and lets every kernel make its outputs.

    Attributes:
        op_type: Operator.
        factory: Called once a node with its context; returns the callable.
        domain: Operator domain, ``""`` for ``ai.onnx``.
        since: First *schema* version covered (``since_version``; ``Add`` at opset 21 is 14).
        until: Last schema version covered; None means `since` only, so that a new revision of an operator is
            unsupported until somebody has read it and widened the range.
        types: Allowed type strings for each of the schema's type variables; a variable not named is not restricted.
        outputs: What the callable returns: 1, the bare array of the first output; n > 1, always a tuple of n, which
            the engine cuts or pads to the node; None, a tuple with exactly one entry an output of the node.
        out: The callable also takes its outputs as further positional arguments and writes there (a NumPy ufunc does).
        inplace: Pairs (input, output) that may share one buffer when `out` is declared and the input dies here.
        views: Pairs (output, input): the output may be a view of that input, with any strides. Other outputs are new
            arrays, C-contiguous unless `strided` is declared and an input was not.
        strided: Inputs need not be C-contiguous.
        host_inputs: Inputs that are read on the host (shapes, axes, indices), whatever the provider's device.
        host_outputs: Outputs that are produced on the host.
        output_shape: ``f(*inputs)`` → shape of the first output, where it can be larger than every input (broadcast,
            outer product) and the callable does not itself call `KernelContext.check_allocation`.
        subgraphs: Graph attributes that the kernel runs with `KernelContext.subgraph`; those that a node lacks are
            left out. Graphs that are not declared here are the kernel's own affair: the engine does not plan them.
        implementation: ``module:qualname`` for reports; filled in by `kernel`.
    """

    op_type: str
    factory: KernelFactory
    domain: str = ""
    since: int = 1
    until: int | None = None
    types: Mapping[str, frozenset[str]] = field(default_factory=dict)
    outputs: int | None = 1
    out: bool = False
    inplace: tuple[tuple[int, int], ...] = ()
    views: tuple[tuple[int, int], ...] = ()
    strided: bool = False
    host_inputs: frozenset[int] = frozenset()
    host_outputs: frozenset[int] = frozenset()
    output_shape: ShapeFunction | None = None
    subgraphs: tuple[Subgraph, ...] = ()
    implementation: str = ""

    @property
    def last(self) -> int:
        """Last schema version covered."""
        return self.since if self.until is None else self.until

    @property
    def title(self) -> str:
        """Domain, operator and versions, e.g. ``Softmax(13)``."""
        versions = self.since if self.last == self.since else f"{self.since}-{self.last}"
        return f"{operator_title(self.op_type, self.domain)}({versions})"

    def replace(self, **changes: Any) -> KernelDef:
        """A copy with some fields changed, e.g. to restrict types on another array module."""
        return replace(self, **changes)

    def __str__(self) -> str:
        types = "; ".join(f"{var}: {', '.join(sorted(allowed))}" for var, allowed in sorted(self.types.items()))
        return f"{self.title} [{types}]" if types else self.title


def kernel(
    op_type: str,
    *,
    since: int = 1,
    until: int | None = None,
    domain: str = "",
    bind: Callable[[Callable[..., Any], KernelContext], KernelCallable] | None = None,
    **declaration: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a kernel from a plain function ``f(ctx, *inputs, **attributes)``.

    Attributes of the node are passed by keyword, so defaults stand in the signature, as in the schema; graphs declared
    in `subgraphs` arrive as callables (`KernelContext.subgraph`). The declaration is kept on the function (several
    decorators may be stacked); `KernelDef`s are collected by `kernel_defs`. Other keyword arguments are those of
    `KernelDef`.

    Functions of another form are declared with `bind`, which makes the callable of the function and a node's context:
    it is how a library builds decorators of its own.

    Example::

        @kernel("Softmax", since=13, types={"T": ALL_FLOATS})
        def softmax(ctx, x, *, axis=-1):
            xp = ctx.xp
            e = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
            return e / xp.sum(e, axis=axis, keepdims=True)
    """

    names = tuple(subgraph.name for subgraph in declaration.get("subgraphs", ()))

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        definition = KernelDef(
            op_type=op_type,
            factory=partial(bind or partial(_bind_function, names), function),
            domain=domain,
            since=since,
            until=until,
            implementation=f"{function.__module__}:{function.__qualname__}",
            **declaration,
        )
        declared: list[KernelDef] = getattr(function, "__kernel_defs__", [])
        function.__kernel_defs__ = [definition, *declared]  # type: ignore[attr-defined]  # functions take attributes
        return function

    return declare


def _bind_function(subgraphs: tuple[str, ...], function: Callable[..., Any], ctx: KernelContext) -> KernelCallable:
    attributes = dict(ctx.node.attributes)
    for name in subgraphs:
        callable_ = ctx.subgraph(name)
        if callable_ is not None:
            attributes[name] = callable_
    return partial(function, ctx, **attributes)


@dataclass(frozen=True, slots=True)
class KernelMatch:
    """Outcome of looking a kernel up for a node.

    Attributes:
        kernel: The kernel found, None where there is none.
        refusals: Why each candidate was refused, all of them; empty when a kernel was found.
    """

    kernel: KernelDef | None
    refusals: tuple[str, ...] = ()


class KernelCatalog(ABC):
    """Kernels that are loaded operator by operator: what a large library gives in place of a list.

    An operator's kernels are asked for when the first node of it is met, once a session; so they can be imported then.
    """

    @abstractmethod
    def kernels_of(self, domain: str, op_type: str) -> Sequence[KernelDef]:
        """All kernels of an operator; nothing where there are none. Two that claim the same versions and types are a
        `KernelConflictError` when the operator is asked for."""

    @abstractmethod
    def __iter__(self) -> Iterator[KernelDef]:
        """All kernels of all operators, for listings; may load everything."""


class KernelLookup(ABC):
    """Asks the registry about one provider's kernels; handed to `IExecutionProvider.get_capability`."""

    @abstractmethod
    def find(self, node: NodeSpec) -> KernelMatch:
        """The provider's kernel for a node, or every reason there is none."""


def kernel_defs(*modules: Any) -> list[KernelDef]:
    """All kernels declared with `kernel` in these modules, and their module-level ``KERNELS`` lists.

    Args:
        *modules: Imported modules. A module may also hold ``KERNELS: list[KernelDef]`` for kernels that are
            declared without a function of their own, such as ufuncs.

    Returns:
        The declarations, in the order of the modules and of their definitions.
    """
    found: list[KernelDef] = []
    for module in modules:
        for value in vars(module).values():
            if getattr(value, "__module__", None) == module.__name__:
                found.extend(getattr(value, "__kernel_defs__", ()))
        found.extend(getattr(module, "KERNELS", ()))
    return found
