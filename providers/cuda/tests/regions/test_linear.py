"""Linear layers as one product: which nodes are taken, what is computed on the host, and what is left to others."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ort_py.contracts import CompiledRegion, FrameResources
from ort_py.errors import InvalidArgument
from ort_py_array.contrib.schemas import schemas
from ort_py_cuda import capture, regions, settings
from ort_py_cuda.cublaslt.elements import Epilogue
from ort_py_cuda.kernels.catalog import CudaKernels
from ort_py_cuda.regions import linear
from ort_py_cuda.settings import Settings
from ort_py_kit.graphs import graph_view, model_from_text, reference_run
from providers.cuda.tests.cublaslt.fake_library import FakeLt
from providers.cuda.tests.drawing import rng
from providers.cuda.tests.emulation.host import HostModule, on_host
from providers.cuda.tests.fixtures_cublaslt import on_the_host

SCHEMAS = tuple(schemas())
_IMPORTS = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'
_TYPES: dict[str, Any] = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> tuple[HostModule, FakeLt]:
    """The stand-ins for CuPy and for cuBLASLt."""
    return on_the_host(monkeypatch)


def model(nodes: str, kind: str = "float", bias: tuple[int, ...] = (5,), shape: str = "2, 3, 4") -> onnx.ModelProto:
    """A graph with a weight ``w`` (4, 5) and a vector ``b``; `nodes` make ``y`` of ``x``."""
    graph = f"{_IMPORTS} g ({kind}[{shape}] x) => ({kind}[A, B, C] y) {{ {nodes} }}"
    made = model_from_text(graph)
    for name, size in (("w", (4, 5)), ("b", bias)):
        values = rng().integers(-3, 4, size).astype(_TYPES.get(kind, np.float64))
        made.graph.initializer.append(numpy_helper.from_array(values, name))
    return made


def groups(made: onnx.ModelProto) -> list[tuple[int, ...]]:
    """Claims of a whole model."""
    view = graph_view(made, schemas=SCHEMAS)
    return [claim.nodes for claim in regions.groups(view, range(len(view.nodes)))]


def run(compiled: CompiledRegion, *feeds: Any, out: Any = None) -> Any:
    """One run of an instance."""
    instance = compiled.instantiate(FrameResources())
    instance.bind([on_host(x) for x in feeds], (out,))
    (found,) = instance()
    return found


def compiled_of(made: onnx.ModelProto) -> CompiledRegion:
    """All of a model's nodes as the one region that they are claimed as."""
    view = graph_view(made, schemas=SCHEMAS)
    everything = tuple(range(len(view.nodes)))
    assert groups(made) == [everything]
    return regions.compile(view.region(everything))


LAYERS = {
    "the sum": ("p = MatMul(x, w) y = Add(p, b)", Epilogue.BIAS),
    "the vector first": ("p = MatMul(x, w) y = Add(b, p)", Epilogue.BIAS),
    "Relu": ("p = MatMul(x, w) s = Add(p, b) y = Relu(s)", Epilogue.RELU_BIAS),
    "Gelu by tanh": ('p = MatMul(x, w) s = Add(p, b) y = Gelu<approximate="tanh">(s)', Epilogue.GELU_BIAS),
    "FastGelu": ("p = MatMul(x, w) s = Add(p, b) y = com.microsoft.FastGelu(s)", Epilogue.GELU_BIAS),
    "FastGelu with the vector": ("p = MatMul(x, w) y = com.microsoft.FastGelu(p, b)", Epilogue.GELU_BIAS),
}


@pytest.mark.parametrize("kind", sorted(_TYPES))
@pytest.mark.parametrize("layer", sorted(LAYERS))
def test_a_layer_is_one_product(layer: str, kind: str, host: tuple[HostModule, FakeLt]) -> None:
    """With what follows it in its epilogue; all rows of all batches at once."""
    nodes, epilogue = LAYERS[layer]
    made = model(nodes, kind)
    x = rng().integers(-3, 4, (2, 3, 4)).astype(_TYPES[kind])
    found = run(compiled_of(made), x)
    plain = model(LAYERS["the sum"][0], "float")
    for place in (0, 1):
        values = numpy_helper.to_array(made.graph.initializer[place]).astype(np.float32)
        plain.graph.initializer[place].CopyFrom(numpy_helper.from_array(values, plain.graph.initializer[place].name))
    (wanted,) = reference_run(plain, {"x": x.astype(np.float32)})
    if epilogue is Epilogue.RELU_BIAS:
        wanted = np.maximum(wanted, 0)
    elif epilogue is Epilogue.GELU_BIAS:
        wanted = wanted * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (wanted + 0.044715 * wanted**3)))
    assert found.dtype == x.dtype
    tolerance = 1e-5 if kind == "float" else 1e-2
    np.testing.assert_allclose(np.asarray(found).astype(np.float64), wanted, rtol=tolerance, atol=tolerance)
    ((problem, _),) = host[1].problems
    assert problem.epilogue == epilogue
    assert host[1].calls.count("cublasLtMatmul") == 1


def test_a_vector_with_leading_ones(host: tuple[HostModule, FakeLt]) -> None:
    """Is one too, where it adds no axes."""
    assert groups(model(LAYERS["the sum"][0], bias=(1, 1, 5))) == [(0, 1)]
    assert groups(model(LAYERS["the sum"][0], bias=(1, 1, 1, 5))) == []


NONE = {
    "one number for all columns": (LAYERS["the sum"][0], {"bias": (1,)}),
    "a matrix": (LAYERS["the sum"][0], {"bias": (3, 5)}),
    "float64": (LAYERS["the sum"][0], {"kind": "double"}),
    "a product that is read twice": ("p = MatMul(x, w) s = Add(p, b) t = Transpose<perm=[0, 1, 2]>(p) "
                                     "y = Concat<axis=0>(s, t)", {}),
    "a vector that is fed": ("v = Cast<to=1>(b) p = MatMul(x, w) u = ReduceMax<keepdims=0>(x) c = Mul(u, b) "
                             "y = Add(p, c)", {}),
    "the vector in front of FastGelu": ("p = MatMul(x, w) y = com.microsoft.FastGelu(b, p)", {}),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(NONE))
def test_what_is_no_layer(case: str) -> None:
    """Each node runs as it does by itself, or with other ones."""
    nodes, changes = NONE[case]
    view = graph_view(model(nodes, **changes), schemas=SCHEMAS)  # type: ignore[arg-type]  # keywords by name
    assert linear.groups(view, range(len(view.nodes))) == []


def test_a_sum_that_element_wise_nodes_alone_read_is_theirs() -> None:
    """Their kernel reads the product anyway, and the vector costs it nothing; exact Gelu is not an epilogue."""
    assert groups(model("p = MatMul(x, w) s = Add(p, b) y = Gelu(s)")) == [(1, 2)]
    assert groups(model("p = MatMul(x, w) s = Add(p, b) t = Gelu(s) y = Transpose<perm=[0, 2, 1]>(t)")) == [(1, 2)]
    both = model("p = MatMul(x, w) s = Add(p, b) t = Gelu(s) z = Transpose<perm=[0, 1, 2]>(s) y = Add(t, z)")
    assert groups(both) == [(0, 1), (2, 4)], "the sum has to be written for Transpose anyway"


def test_what_is_left_of_a_layer() -> None:
    """Is one where the product and the sum are there, and no region otherwise."""
    view = graph_view(model(LAYERS["Relu"][0]))
    nodes = view.nodes
    assert regions.group_refusal(nodes, view) is None
    assert regions.group_refusal(nodes[:2], view) == "what is left is not a product with what follows it"
    assert regions.group_refusal(nodes[:1], view) == "what is left is not a product with what follows it"
    assert regions.group_refusal(nodes[1:], view) is None, "the sum and Relu are a kernel"


def test_the_result_goes_where_it_is_wanted(host: tuple[HostModule, FakeLt]) -> None:
    """Into an array of its shape; another one is not touched."""
    compiled = compiled_of(model(LAYERS["the sum"][0], shape="N, M, 4"))
    x = np.ones((2, 3, 4), np.float32)
    fresh = run(compiled, x)
    place, other = on_host(np.zeros((2, 3, 5), np.float32)), on_host(np.zeros((1, 3, 5), np.float32))
    assert run(compiled, x, out=place) is place
    assert run(compiled, x, out=other) is not other
    np.testing.assert_array_equal(np.asarray(place), np.asarray(fresh))
    assert not np.asarray(other).any()


def test_both_factors_may_be_fed(host: tuple[HostModule, FakeLt]) -> None:
    """Only the vector has to be constant."""
    made = model_from_text(f"{_IMPORTS} g (float[2, 3, 4] x, float[4, 5] w) => (float[2, 3, 5] y) "
                           "{ p = MatMul(x, w) y = Add(p, b) }")  # fmt: skip
    made.graph.initializer.append(numpy_helper.from_array(np.arange(5, dtype=np.float32), "b"))
    x, w = rng().standard_normal((2, 3, 4), np.float32), rng().standard_normal((4, 5), np.float32)
    found = run(compiled_of(made), x, w)
    np.testing.assert_allclose(np.asarray(found), x @ w + np.arange(5), rtol=1e-5)


def test_shapes_that_do_not_fit(host: tuple[HostModule, FakeLt]) -> None:
    compiled = compiled_of(model("p = MatMul(x, w) y = Add(p, b)", shape="N, M, K"))
    with pytest.raises(InvalidArgument, match=r"Cannot multiply shapes \[2, 3, 6\] and \[4, 5\]"):
        run(compiled, np.ones((2, 3, 6), np.float32))


@pytest.mark.parametrize("tf32", [False, True])
def test_the_sessions_arithmetic(tf32: bool, host: tuple[HostModule, FakeLt]) -> None:
    """TF32 where the session allows it."""
    made = model(LAYERS["the sum"][0])
    compiled = settings.applied(Settings(tf32=tf32), compiled_of, made)
    assert isinstance(compiled, linear.LinearRegion)
    assert compiled.tf32 is tf32


def test_a_captured_run_has_it_too(host: tuple[HostModule, FakeLt]) -> None:
    """The layer is one step, and the remaining node is another."""
    made = model("p = MatMul(x, w) s = Add(p, b) y = Transpose<perm=[0, 2, 1]>(s)")
    view = graph_view(made, schemas=SCHEMAS)
    region = capture.compile(view.region(range(3)), CudaKernels(), host[0])
    assert isinstance(region, capture.CapturedRegion)
    assert [step.part is None for step in region.program.steps] == [False, True]
    x = rng().integers(-3, 4, (2, 3, 4)).astype(np.float32)
    (found,) = region.program.run([on_host(x)], region.program.parts(FrameResources()), host[0])
    (wanted,) = reference_run(made, {"x": x})
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5)
