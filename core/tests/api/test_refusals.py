"""Sessions that cannot be: the texts of their errors say what, where, why and what to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ort_py
from core.tests.small_models import CPU, RELU, model_bytes, open_model
from ort_py import EPFail, InvalidArgument, KernelNotFoundError, OptionError
from ort_py.contracts import ProviderFactory
from ort_py.engine.preparation import KernelEvaluator
from ort_py.errors import EngineError
from ort_py.graph.view import ModelGraphView, node_spec
from ort_py.kernels.registry import KernelRegistry
from ort_py.kernels.services import KernelServices
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory, FakeProvider
from ort_py_kit.graphs import typed_model

FAKE = "FakeExecutionProvider"


def test_an_operator_that_nobody_runs(register: Callable[[ProviderFactory], None]) -> None:
    """Names the operator and its version, the node, and every provider's refusal."""
    register(FakeFactory(FAKE, FakeBehaviour(operators={"Add"})))
    options = ort_py.SessionOptions()
    options.strict = "node"
    text = 'g (float[N, 3] x) => (float[N, 3] y) { ["edge"] y = Sin(x) }'
    with pytest.raises(KernelNotFoundError, match=r"No provider of this session runs 1 node.*Sin\(7\)") as caught:
        ort_py.InferenceSession(model_bytes(text), options, [FAKE])
    assert caught.value.location.node == "edge"
    assert f"{FAKE}: no kernel for Sin" in str(caught.value)
    assert "Install a provider" in caught.value.fix


def test_nodes_on_the_host_in_strict_mode(register: Callable[[ProviderFactory], None]) -> None:
    """Strict mode `node` with the CPU provider named: nodes the accelerator refuses may not end there."""
    register(FakeFactory(FAKE, FakeBehaviour(operators={"Add"})))
    options = ort_py.SessionOptions()
    options.strict = "node"
    with pytest.raises(EPFail, match=r"1 node\(s\) would run on the host, which strict mode 'node' forbids") as caught:
        ort_py.InferenceSession(model_bytes(RELU), options, [FAKE, *CPU])
    assert f"{FAKE}: no kernel for Relu" in str(caught.value)
    assert caught.value.location.op_type == "Relu"


def test_providers_as_a_string() -> None:
    """onnxruntime takes it for a list of letters."""
    with pytest.raises(OptionError, match="providers is the string 'CPUExecutionProvider'") as caught:
        open_model(RELU, providers="CPUExecutionProvider")
    assert caught.value.fix == "Pass a list: providers=['CPUExecutionProvider']."


def test_a_config_entry_that_was_never_set() -> None:
    """A RuntimeError, as in onnxruntime, with the key."""
    with pytest.raises(RuntimeError, match=r"There is no config entry 'session\.x'"):
        ort_py.SessionOptions().get_session_config_entry("session.x")


def test_a_feed_whose_memory_is_elsewhere() -> None:
    """DLPack's own reason is in the error, and what to do."""

    class Elsewhere:
        """A tensor on a device that NumPy cannot read."""

        def __dlpack__(self, **_keywords: object) -> object:
            raise BufferError("it is on another device")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    with pytest.raises(InvalidArgument, match="'x' cannot be read through DLPack") as caught:
        open_model(RELU).run(None, {"x": Elsewhere()})
    assert (caught.value.location.value, caught.value.fix) == ("x", "Bring it to the host first.")


def test_a_transform_that_wants_a_context_where_nobody_computes_on_the_host() -> None:
    """The node and what is missing are named."""
    model = typed_model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    evaluator = KernelEvaluator([FakeProvider()], KernelRegistry(), KernelServices())
    node = node_spec(model.graph.nodes[0])
    assert evaluator.evaluate(node, [np.zeros(2, np.float32)]) is None
    with pytest.raises(EngineError, match="No provider of this session computes on the host") as caught:
        evaluator.kernel_context(node)
    assert caught.value.location.op_type == "Relu"


def test_a_region_of_nodes_that_do_not_exist() -> None:
    """A claim's mistake: the number, and which there are."""
    view = ModelGraphView(typed_model(RELU).graph)
    with pytest.raises(InvalidArgument, match="has no node 7") as caught:
        view.region([0, 7])
    assert caught.value.why == ("its nodes are numbered 0 to 0",)
