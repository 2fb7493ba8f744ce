"""Binding: the arguments of a factory, the number of results, and sizes that are refused before the call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.tests.driving import HostProvider
from ort_py.contracts import KernelContext, KernelDef, KernelForms, NodeSpec, ValueSpec, kernel
from ort_py.dtypes import DataType, TensorType
from ort_py.errors import InvalidArgument, LimitError, PluginError
from ort_py.kernels.binding import BoundKernel, bind_kernel, make_context
from ort_py.kernels.services import KernelServices
from ort_py.limits import Limits
from ort_py_kit.fake_device import FakeProvider
from ort_py_kit.kernel_runner import make_node_spec

SMALL = KernelServices(Limits(single_allocation_bytes=1024))


def node(inputs: int = 1, outputs: int = 1, shape: tuple[Any, ...] | None = None) -> NodeSpec:
    """A node with so many inputs and outputs; the first output has a declared shape where one is given."""
    spec = make_node_spec("Frob", [np.ones(2, np.float32)] * inputs, domain="com.example", opset=1, outputs=outputs)
    if shape is None:
        return spec
    return replace(spec, outputs=(ValueSpec("y0", TensorType(DataType.FLOAT, shape)), *spec.outputs[1:]))


def bind(
    call: Callable[..., Any], spec: NodeSpec, services: KernelServices | None = None, **declaration: Any
) -> BoundKernel:
    """Bind a callable as a kernel."""
    definition = KernelDef("Frob", lambda _ctx: call, domain="com.example", **declaration)
    return bind_kernel(spec, definition, HostProvider([]), services or KernelServices(), {})


def test_a_context_knows_node_module_and_constants() -> None:
    """The factory is called once with the node, the provider's array module and the constants known now."""
    seen: list[KernelContext] = []

    def factory(ctx: KernelContext) -> Callable[..., Any]:
        seen.append(ctx)
        return lambda x: x

    bind_kernel(node(2), KernelDef("Frob", factory), HostProvider([]), KernelServices(), {1: np.array([3])})
    (context,) = seen
    assert context.node.op_type == "Frob"
    assert context.xp is np
    constant = context.constant(1)
    assert constant is not None
    assert constant.tolist() == [3]
    assert context.constant(0) is None


def test_a_seed_makes_random_numbers_repeatable() -> None:
    """A node's seed beats the session's, whose calls differ from each other and repeat in another session."""
    first, other = (make_context(node(), HostProvider([]), KernelServices(seed=7)) for _ in range(2))
    drawn = [first.random_generator(None).random() for _ in range(2)]
    assert drawn == [other.random_generator(None).random() for _ in range(2)]
    assert drawn[0] != drawn[1]
    assert first.random_generator(1.5).random() == first.random_generator(1.5).random() not in drawn


def test_without_a_seed_nothing_repeats() -> None:
    first, other = (make_context(node(), HostProvider([]), KernelServices()) for _ in range(2))
    assert first.random_generator(None).random() != other.random_generator(None).random()


def test_refusals_of_a_factory_pass_through() -> None:
    """An error of ort-py raised by the factory is the answer itself."""

    def factory(_ctx: KernelContext) -> Callable[..., Any]:
        raise InvalidArgument("axis 9 is too large")

    with pytest.raises(InvalidArgument, match="axis 9"):
        bind_kernel(node(), KernelDef("Frob", factory), HostProvider([]), KernelServices(), {})


def test_a_broken_factory_is_the_plug_ins_error() -> None:
    """Anything else is a PluginError with the kernel, the node and the original exception."""

    def factory(_ctx: KernelContext) -> Callable[..., Any]:
        raise KeyError("axes")

    definition = KernelDef("Frob", factory, implementation="pkg:frob")
    with pytest.raises(PluginError) as caught:
        bind_kernel(node(), definition, HostProvider([]), KernelServices(), {})
    assert "The factory of kernel Frob(1) raised KeyError: 'axes'" in str(caught.value)
    assert "pkg:frob" in str(caught.value)
    assert caught.value.location.node == "Frob_under_test"
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("declared", "returned", "outputs", "expected"),
    [
        (1, "a", 1, "a"),
        (1, "a", 2, ("a", None)),
        (None, ("a",), 1, "a"),
        (None, ("a", "b"), 2, ("a", "b")),
        (3, ("a", "b", "c"), 1, "a"),
        (3, ("a", "b", "c"), 2, ("a", "b")),
        (3, ("a", "b", "c"), 3, ("a", "b", "c")),
        (2, ["a", "b"], 3, ("a", "b", None)),
    ],
)
def test_results_are_cut_or_padded_to_the_node(
    declared: int | None, returned: Any, outputs: int, expected: Any
) -> None:
    """One output comes bare, several as a tuple with one entry per output of the node."""
    assert bind(lambda _x: returned, node(1, outputs), outputs=declared).call(0) == expected


def broadcast(left: Any, right: Any) -> Any:
    """Shape of a broadcast."""
    return np.broadcast_shapes(left.shape, right.shape)


def outer(left: Any, right: Any) -> Any:
    """Shape of a matrix product."""
    return (*left.shape[:-1], right.shape[-1])


def never(*_inputs: Any) -> Any:
    """A kernel that must not be reached."""
    raise AssertionError("the kernel was called")


def test_a_huge_broadcast_is_refused_before_it_is_made() -> None:
    """(n,1) + (1,n) has n*n elements though both inputs are small."""
    call = bind(never, node(2), SMALL, output_shape=broadcast).call
    with pytest.raises(LimitError, match="larger than one allocation may be") as caught:
        call(np.ones((100, 1), np.float32), np.ones((1, 100), np.float32))
    assert "100×100" in str(caught.value)
    assert caught.value.location.node == "Frob_under_test"


def test_a_product_over_an_empty_axis_is_refused_by_its_result() -> None:
    """(n,0) @ (0,n) reads nothing and makes n*n zeros."""
    call = bind(never, node(2), SMALL, output_shape=outer).call
    with pytest.raises(LimitError, match="100×100"):
        call(np.ones((100, 0), np.float32), np.ones((0, 100), np.float32))


def test_small_results_pass_the_guard() -> None:
    """Products of sizes above the cap are looked at closely, and let through where the result is small."""
    call = bind(np.matmul, node(2), SMALL, output_shape=outer).call
    assert call(np.ones((2, 100), np.float32), np.ones((100, 2), np.float32)).tolist() == [[100, 100], [100, 100]]


def test_an_unknown_result_shape_is_the_kernels_business() -> None:
    """An `output_shape` that answers None leaves the check to the kernel."""
    assert bind(lambda *_: "made", node(3), SMALL, output_shape=lambda *_: None).call(1, 2, 3) == "made"


def test_a_declared_shape_is_checked_once_when_bound() -> None:
    """A static output is refused while planning, and costs nothing in the run where it fits."""
    with pytest.raises(LimitError, match="100×100"):
        bind(never, node(2, 1, (100, 100)), SMALL, output_shape=broadcast)
    assert bind(np.add, node(2, 1, (2,)), SMALL, output_shape=broadcast).call is np.add


def test_symbolic_shapes_are_checked_in_the_run() -> None:
    """A dimension that is not known while planning is guarded in each call."""
    call = bind(never, node(3, 1, ("n", 100)), SMALL, output_shape=lambda a, b, _c: broadcast(a, b)).call
    with pytest.raises(LimitError, match="100×100"):
        call(np.ones((100, 1), np.float32), np.ones((1, 100), np.float32), None)


def test_without_a_limit_there_is_no_guard() -> None:
    """Unlimited sessions call the kernel bare."""
    services = KernelServices(Limits.unlimited())
    assert bind(np.add, node(2), services, output_shape=broadcast).call is np.add


def test_a_kernel_may_ask_the_context() -> None:
    """`check_allocation` applies the limits; rows run inline without a pool."""
    context = make_context(node(), HostProvider([]), SMALL)
    context.check_allocation((4,), np.float32)
    with pytest.raises(LimitError, match="1000"):
        context.check_allocation((1000,), np.float32)
    with pytest.raises(LimitError, match=r"2\^130 bytes"):
        context.check_allocation(list(np.array([1 << 32] * 4)), np.float32)  # integers that wrap
    parts: list[tuple[int, int]] = []
    context.parallel_for(10, 2, lambda start, stop: parts.append((start, stop)))
    assert parts == [(0, 10)]


def test_work_on_a_device_is_not_split() -> None:
    """The frame's stream is current on the thread that runs it: parts on the pool's threads would be out of order."""

    def split(rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        for start in range(0, rows, grain):
            fn(start, start + grain)

    parts: list[tuple[int, int]] = []
    services = KernelServices(parallel_for=split)
    for provider in (HostProvider([]), FakeProvider()):
        context = make_context(node(), provider, services)
        context.parallel_for(4, 2, lambda start, stop: parts.append((start, stop)))
    assert parts == [(0, 2), (2, 4), (0, 4)]


def test_a_kernel_that_writes_where_it_is_told() -> None:
    """One that declares `out` has a second form, not guarded: the array is there already."""
    bound = bind(np.add, node(2, shape=("n",)), SMALL, out=True, output_shape=broadcast)
    assert bound.into is not None
    x, out = np.ones(3, np.float32), np.empty(3, np.float32)
    assert bound.into(x, x, out) is out
    assert out.tolist() == [2, 2, 2]
    assert bind(np.add, node(2)).into is None


def test_a_second_form_fills_all_outputs() -> None:
    """It is used where the node wants just what the kernel makes, and no output is left out."""

    def call(x: Any, *outs: Any) -> Any:
        return outs or (x, x)

    assert bind(call, node(outputs=2), out=True, outputs=2).into is call
    assert bind(call, node(outputs=1), out=True, outputs=2).into is None
    spec = node(outputs=2)
    assert bind(call, replace(spec, outputs=(None, spec.outputs[1])), out=True, outputs=2).into is None
    several = bind(call, node(outputs=1), out=True, outputs=None).into
    assert several is not None
    out = np.empty(1)
    assert several(np.ones(1), out) is out


def test_two_forms_may_be_two_functions() -> None:
    """The engine calls each without asking which; who wraps the kernel calls it in either form."""
    forms = KernelForms(1, lambda x: ("plain", x), lambda x, out: ("into", x, out))
    bound = bind(forms, node(), out=True)
    assert bound.call(1) == ("plain", 1)
    assert bound.into is not None
    assert bound.into(1, 2) == ("into", 1, 2)
    assert (forms(1), forms(1, 2)) == (("plain", 1), ("into", 1, 2))


def test_a_node_may_have_no_second_form() -> None:
    """Though the kernel declares one: its factory declines where it cannot promise the shape."""
    forms = KernelForms(1, lambda *arrays: ("plain", *arrays), None)
    bound = bind(forms, node(), out=True)
    assert bound.into is None
    assert (bound.call(1), forms(1)) == (("plain", 1), ("plain", 1))


def test_a_decorated_function_gets_its_output_by_keyword() -> None:
    """One array for one output, a tuple for several; None in the first form."""

    @kernel("Frob", domain="com.example", out=True)
    def frob(_ctx: KernelContext, x: Any, *, out: Any = None) -> Any:
        return "made" if out is None else (x, out)

    (definition,) = frob.__kernel_defs__  # type: ignore[attr-defined]  # what the decorator left
    bound = bind_kernel(node(), definition, HostProvider([]), KernelServices(), {})
    assert bound.into is not None
    assert (bound.call(1), bound.into(1, 2)) == ("made", (1, 2))
    several = bind_kernel(node(outputs=2), definition.replace(outputs=2), HostProvider([]), KernelServices(), {})
    assert several.into is not None
    assert several.into(1, 2, 3) == (1, (2, 3))
