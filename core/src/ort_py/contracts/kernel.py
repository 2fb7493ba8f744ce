"""Kernels: the code that runs one operator, how it is declared, and what it is given.

A kernel is found by (provider, domain, operator, schema version, types). Its *factory* is called once for each node
when a session is planned and returns the callable that runs: positional arrays in, one array out (or a tuple, see
`KernelDef.outputs`). Everything that can be decided once is decided in the factory.

Imports no engine room. `ort_py.kernels` registers, matches and binds what is declared here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, TypeAlias

from ort_py.contracts.graph_view import Array, NodeSpec
from ort_py.contracts.kernel_context import KernelContext, SubgraphCallable
from ort_py.dtypes import DataType, float_attribute
from ort_py.errors import operator_title
from ort_py.lazy_dataclass import dataclass

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
    "KernelForms",
    "KernelLookup",
    "KernelMatch",
    "Subgraph",
    "SubgraphCallable",
    "kernel",
    "kernel_defs",
    "tensors",
]

KernelCallable: TypeAlias = Callable[..., Any]
"""``f(*inputs)``: stateless, thread-safe, with as many arguments as the node has inputs, None for what is absent.

It must not write to an input, nor return one or a view of one unless it declares `views`. Inputs that are weights are
read-only on the host, where NumPy raises ValueError, because sessions share them and they may be pages of a file; on
devices that are not checked.

Where the `KernelDef` declares `out`, it is called in two forms, and may not know which one comes next:

- ``f(*inputs)`` makes its outputs, as above;
- ``f(*inputs, *outputs)``: behind the node's inputs stands one array an output of the node, C-contiguous, of the very
  shape and dtype that the first form would return, with any content. It writes the results there and returns what it
  was given, an array or a tuple as in the first form. An output shares memory with no input, except with one that
  `inplace` allows, which is then the same memory in the same layout.

So the shapes and dtypes of its outputs must follow from those of its inputs, from constants and from attributes: it is
called in the second form only with inputs of shapes that it was called with in the first. What such an array holds is
the engine's again later: nothing of it may be kept beyond the call. Where one function for both forms would have to
ask on each call which one it is, the factory returns `KernelForms`, which also has a third form: for caches that the
caller feeds and gets back in one memory."""


class KernelForms:
    """The forms of a kernel where they are not one function. The engine calls the right one.

    Args:
        inputs: Number of inputs of the node.
        call: ``f(*inputs)``.
        into: ``f(*inputs, *outputs)``; None where it could not promise that for this node, because a shape depends on
            the values of an input that is not constant, or the output is a view.
        over: ``f(*inputs, *outputs)`` for a kernel that does not declare `out`, but pairs in `inplace`. Behind the
            inputs stands for each output of the node either the array of an input that it is paired with, or None. The
            kernel may update that array in place of making the output, if the output has its shape and type: it then
            writes only what changes, and returns the array. It makes all other outputs. It is called if the caller gave
            one memory for both, and reads the input nowhere else. Elements that have no meaning may differ from those
            of the first form.
    """

    __slots__ = ("call", "inputs", "into", "over")

    def __init__(
        self, inputs: int, call: KernelCallable, into: KernelCallable | None, over: KernelCallable | None = None
    ) -> None:
        self.inputs = inputs
        self.call = call
        self.into = into
        self.over = over

    def __call__(self, *arrays: Any) -> Any:
        """Run whichever form fits, for code that wraps a factory and does not distinguish the two functions."""
        return self.call(*arrays) if self.into is None or len(arrays) <= self.inputs else self.into(*arrays)


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


KernelFactory: TypeAlias = Callable[[KernelContext], KernelCallable]

ShapeFunction: TypeAlias = Callable[..., Sequence[int] | None]
"""``f(*inputs)`` → the shape of an output; None where it cannot tell."""


NodeRefusal: TypeAlias = Callable[[NodeSpec], str | None]
"""``f(node)`` → why a kernel does not run a node, in words; None where it does."""


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
    `inplace` are permissions: a first run lets every kernel make its outputs, later runs of the same shapes may reuse
    memory.

    Attributes:
        op_type: Operator.
        factory: Called once a node with its context; returns the callable.
        domain: Operator domain, ``""`` for ``ai.onnx``.
        since: First *schema* version covered (``since_version``; ``Add`` at opset 21 is 14).
        until: Last schema version covered; None means `since` only, so that a new revision of an operator is
            unsupported until its author has read it and widened the range.
        types: Allowed type strings for each of the schema's type variables; a variable not named is not restricted.
        outputs: Form of the callable's result: 1, the bare array of the first output; n > 1, always a tuple of n, which
            the engine cuts or pads to the node; None, a tuple with exactly one entry per output of the node.
        out: The callable also takes its outputs as further positional arguments and writes there (a NumPy ufunc does);
            see `KernelCallable` for what it then owes.
        inplace: Pairs (input, output) that may share one buffer when `out` is declared, shape and dtype are the same,
            and the input is not read later. Several pairs are used in a call where the caller bound several outputs
            over inputs, but no input or output is in two of them. Without `out`, pairs for `KernelForms.over`.
        views: Pairs (output, input): the output may be a view of that input, with any strides; a sequence in several
            pairs may hold any input. Others are new, C-contiguous unless `strided` is declared and an input was not.
        strided: Inputs need not be C-contiguous.
        host_inputs: Inputs that are read on the host (shapes, axes, indices), whatever the provider's device.
        host_outputs: Outputs that are produced on the host.
        output_shape: ``f(*inputs)`` → shape of the first output, where it can be larger than every input (broadcast,
            outer product) and the callable does not itself call `KernelContext.check_allocation`.
        subgraphs: Graph attributes that the kernel runs with `KernelContext.subgraph`; those that a node lacks are
            left out. Graphs that are not declared here are the kernel's own affair: the engine does not plan them.
        refuses: ``f(node)`` → why the kernel does not run a node whose version and types fit, None where it does: what
            an attribute, an absent input or a known shape decides, e.g. ``training_mode``. The node then goes to the
            next provider, and users read the reason. It is asked whenever a session is planned, must answer the same
            each time, and must not keep the node. What it raises counts as a reason.
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
    refuses: NodeRefusal | None = None
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

    Attributes of the node are passed by keyword, so defaults stand in the signature, as in the schema. Attributes are
    float32 in ONNX: numbers among the defaults are rounded to it, so that 0.01 is the same number whether it was left
    out or written into the model. Graphs declared in `subgraphs` arrive as callables (`KernelContext.subgraph`). The
    declaration is kept on the function (several decorators may be stacked); `KernelDef`s are collected by
    `kernel_defs`. Other keyword arguments are those of `KernelDef`. A function declared with ``out=True`` has a
    keyword-only parameter `out`, None by default: the array to write to and return, for several outputs a tuple of
    arrays.

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
            factory=partial(bind or partial(_bind_function, names, bool(declaration.get("out"))), function),
            domain=domain,
            since=since,
            until=until,
            implementation=f"{function.__module__}:{function.__qualname__}",
            **declaration,
        )
        if function.__kwdefaults__:
            function.__kwdefaults__ = {
                name: float_attribute(value) if isinstance(value, float) else value
                for name, value in function.__kwdefaults__.items()
            }
        declared: list[KernelDef] = getattr(function, "__kernel_defs__", [])
        function.__kernel_defs__ = [definition, *declared]  # type: ignore[attr-defined]  # functions take attributes
        return function

    return declare


def _bind_function(
    subgraphs: tuple[str, ...], out: bool, function: Callable[..., Any], ctx: KernelContext
) -> KernelCallable:
    attributes = dict(ctx.node.attributes)
    for name in subgraphs:
        callable_ = ctx.subgraph(name)
        if callable_ is not None:
            attributes[name] = callable_
    call = partial(function, ctx, **attributes)
    if not out:
        return call
    count, single = len(ctx.node.inputs), len(ctx.node.outputs) == 1

    def into(*arrays: Array) -> Any:
        return call(*arrays[:count], out=arrays[count] if single else arrays[count:])

    return KernelForms(count, call, into)


@dataclass(frozen=True, slots=True)
class KernelMatch:
    """Outcome of looking a kernel up for a node.

    Attributes:
        kernel: The kernel found, or None.
        refusals: The reason why each candidate was refused; empty if a kernel was found.
    """

    kernel: KernelDef | None
    refusals: tuple[str, ...] = ()


class KernelCatalog(ABC):
    """Kernels that are loaded operator by operator: what a large library gives in place of a list.

    An operator's kernels are asked for when the first node of it is met, once a session; so they can be imported then.
    """

    @abstractmethod
    def kernels_of(self, domain: str, op_type: str) -> Sequence[KernelDef]:
        """All kernels of an operator, possibly none. Two kernels that claim the same versions and types raise
        `KernelConflictError` when the operator is looked up.
        """

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
