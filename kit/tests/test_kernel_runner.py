"""The helper that runs one kernel without a session."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.contracts import ALL_FLOATS, KernelContext, KernelDef, Subgraph, SubgraphCallable, kernel, tensors
from ort_py.dtypes import DataType, SequenceType, TensorType
from ort_py.errors import KernelNotFoundError
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec, reference_outputs, run_kernel


@kernel("LeakyRelu", since=6, until=16, types={"T": ALL_FLOATS})
def leaky_relu(ctx: KernelContext, x: Any, *, alpha: float = 0.01) -> Any:
    """A kernel to try the helper on."""
    return np.where(x < 0, x * x.dtype.type(alpha), x)


KERNELS: list[KernelDef] = leaky_relu.__kernel_defs__  # type: ignore[attr-defined]  # set by the decorator
X = np.array([-1.0, 2.0], np.float32)


def test_runs_the_kernel_with_its_attributes() -> None:
    """Attributes reach the kernel as keyword arguments."""
    (result,) = run_kernel(KERNELS, "LeakyRelu", [X], alpha=0.5)
    np.testing.assert_array_equal(result, np.array([-0.5, 2.0], np.float32))


def test_agrees_with_the_reference() -> None:
    """`reference_outputs` asks onnx for the same node."""
    (expected,) = reference_outputs("LeakyRelu", [X], alpha=0.5)
    np.testing.assert_array_equal(run_kernel(KERNELS, "LeakyRelu", [X], alpha=0.5)[0], expected)


@kernel("Turned", domain="my", strided=True)
def turned(_ctx: KernelContext, x: Any) -> Any:
    """Gives a view of its input where there is nothing to copy, and does not declare it."""
    return np.ascontiguousarray(x.T)


def test_an_output_that_is_secretly_a_view_is_found() -> None:
    """The engine would overwrite it with the input's memory; an axis of size 1 shows it."""
    definitions: list[KernelDef] = turned.__kernel_defs__  # type: ignore[attr-defined]  # set by the decorator
    assert run_kernel(definitions, "Turned", [np.ones((2, 3))], domain="my")[0].shape == (3, 2)
    with pytest.raises(
        AssertionError, match=r"my.Turned\(1\): output 0 shares memory with input 0: copy it, or declare"
    ):
        run_kernel(definitions, "Turned", [np.ones((1, 3))], domain="my")
    viewing = [one.replace(views=((0, 0),)) for one in definitions]
    assert run_kernel(viewing, "Turned", [np.ones((1, 3))], domain="my")[0].shape == (3, 1)


@kernel("Twice", domain="my", subgraphs=(Subgraph("body"), Subgraph("end")))
def twice(_ctx: KernelContext, x: Any, *, body: SubgraphCallable, end: SubgraphCallable | None = None) -> Any:
    """Runs a graph twice, and another at the end where there is one."""
    (x,) = body(*body(x))
    return x if end is None else end(x)[0]


def test_functions_stand_in_for_graphs() -> None:
    """A kernel that runs graphs is tested without an engine; a graph that is not given is absent."""
    definitions: list[KernelDef] = twice.__kernel_defs__  # type: ignore[attr-defined]  # set by the decorator
    double: SubgraphCallable = lambda x: [x + x]  # noqa: E731 - as short as a graph can be
    for given, wanted in (({"body": double}, [-4, 8]), ({"body": double, "end": lambda x: [-x]}, [4, -8])):
        (result,) = run_kernel(definitions, "Twice", [X], domain="my", opset=1, subgraphs=given)
        np.testing.assert_array_equal(result, np.array(wanted, np.float32))


def test_old_opset_takes_the_schema_in_force() -> None:
    """At opset 3 LeakyRelu is version 1, which the kernel does not cover."""
    with pytest.raises(KernelNotFoundError, match=r"LeakyRelu\(1\)") as caught:
        run_kernel(KERNELS, "LeakyRelu", [X], opset=3)
    assert "the node needs version 1" in str(caught.value)


def test_refused_types_are_listed() -> None:
    """A type the kernel does not take is named in the refusal."""
    with pytest.raises(KernelNotFoundError, match=r"T is tensor\(int32\)"):
        run_kernel(KERNELS, "LeakyRelu", [X.astype(np.int32)])


def test_other_operators_are_no_candidates() -> None:
    """A kernel for another operator is not even a refusal."""
    with pytest.raises(KernelNotFoundError) as caught:
        run_kernel(KERNELS, "Relu", [X])
    assert caught.value.why == ("no kernel for Relu",)


def test_spec_binds_type_variables() -> None:
    """The node says which types its variables have."""
    assert make_node_spec("Add", [X, X]).type_bindings == {"T": "tensor(float)"}


def test_spec_keeps_absent_inputs() -> None:
    """An absent optional input is None."""
    assert make_node_spec("Clip", [X, None, X]).inputs[1] is None


def test_spec_describes_sequences() -> None:
    """A list of arrays is a sequence, whose elements may have any shape."""
    (value,) = make_node_spec("SequenceLength", [[X]]).inputs
    assert value is not None
    assert value.type == SequenceType(TensorType(DataType.FLOAT))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1.5}, "map(string,tensor(float))"),
        ({1: "a"}, "map(int64,tensor(string))"),
        ({np.int64(1): np.float64(2)}, "map(int64,tensor(double))"),
        ([{1: 2}], "seq(map(int64,tensor(int64)))"),
    ],
)
def test_spec_describes_maps(value: Any, text: str) -> None:
    """A dict is a map, of the types of its first entry."""
    (spec,) = make_node_spec("ZipMap", [value], domain="ai.onnx.ml", opset=1).inputs
    assert spec is not None
    assert str(spec.type) == text


def test_spec_says_nothing_of_an_empty_map() -> None:
    (spec,) = make_node_spec("DictVectorizer", [{}], domain="ai.onnx.ml", opset=1).inputs
    assert spec is not None
    assert spec.type is None


def test_masked_outputs_are_absent() -> None:
    """Outputs that are not asked for are None in the node."""
    assert make_node_spec("TopK", [X, np.array([1])], output_mask=[False, True]).outputs[0] is None


def test_context_offers_the_constants_it_was_given() -> None:
    """Only inputs named as constants are known at planning."""
    context = LocalKernelContext(make_node_spec("Add", [X, X]), constants={1: X})
    assert context.constant(0) is None
    assert context.constant(1) is X


def test_context_seeds_generators() -> None:
    """The same seed gives the same numbers."""
    context = LocalKernelContext(make_node_spec("Add", [X, X]))
    assert context.random_generator(1.0).random() == context.random_generator(1.0).random()


def test_type_sets_are_type_strings() -> None:
    """`tensors` spells types as schemas do."""
    assert tensors(DataType.FLOAT) == {"tensor(float)"}
