"""States stay on the device: the kernels run with arrays that refuse NumPy and every wait that is not spelt out.

Graphs are stood in for by onnxruntime. What the kernels say of hosts is held to: tokens in and logits out are NumPy's,
all else is the device's.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import GraphProto

from ort_py.contracts import SubgraphCallable
from ort_py.contracts.graph_view import ValueSpec
from ort_py.dtypes import DataType, TensorType
from ort_py_array.contrib.generation.models import GRAPHS

from ...oracle import run
from ...standin import StandInArray, array_module, to_device, to_host
from .graphs import FEATURES, VOCABULARY, decoder, encoder, gpt
from .sessions import generate, run_graph

_RANDOM = np.random.default_rng(2)
PROMPT = _RANDOM.integers(4, VOCABULARY, (2, 4)).astype(np.int32)
SPEECH = _RANDOM.standard_normal((2, FEATURES, 6)).astype(np.float32)
MARKS: dict[str, Any] = {"eos_token_id": 7, "pad_token_id": 3}
START: dict[str, Any] = {**MARKS, "decoder_start_token_id": 2}


def _one(value: float, dtype: Any = np.int32) -> Any:
    return np.array([value], dtype)


LENGTH, BEAMS = _one(10), _one(3)


def _signature(graph: GraphProto) -> Any:
    """The signature of a graph as a kernel sees it when it is bound."""

    def spec(value: Any) -> ValueSpec:
        shape = tuple(dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim)
        return ValueSpec(value.name, TensorType(DataType(value.type.tensor_type.elem_type), shape))

    return SimpleNamespace(
        inputs=[spec(value) for value in graph.input], outputs=[spec(value) for value in graph.output]
    )


def _on_device(name: str, graph: GraphProto) -> SubgraphCallable:
    declared = next(one for one in GRAPHS if one.name == name)

    def call(*inputs: Any) -> list[Any]:
        for position, value in enumerate(inputs):
            assert isinstance(value, StandInArray) == (position not in declared.host_inputs)
        outputs = run_graph(graph, [to_host(value) for value in inputs])
        return [x if i in declared.host_outputs else to_device(x) for i, x in enumerate(outputs)]

    return call


@pytest.mark.parametrize(
    ("op_type", "inputs", "graphs", "attributes"),
    [
        ("GreedySearch", [PROMPT, LENGTH], {"decoder": gpt()}, MARKS),
        ("GreedySearch", [PROMPT, LENGTH], {"decoder": gpt(), "init_decoder": gpt(1)}, MARKS),
        ("BeamSearch", [PROMPT, LENGTH, None, BEAMS, BEAMS], {"decoder": gpt()}, MARKS),
        (
            "BeamSearch",
            [PROMPT, LENGTH, None, BEAMS, BEAMS],
            {"encoder": encoder(), "decoder": decoder(states=True)},
            {**START, "model_type": 1},
        ),
        (
            "BeamSearch",
            [PROMPT, LENGTH, None, BEAMS, BEAMS],
            {"encoder": encoder(starts=False), "decoder": decoder()},
            {**START, "model_type": 1},
        ),
        (
            "BeamSearch",
            [SPEECH, LENGTH, None, BEAMS, BEAMS],
            {"encoder": encoder(features=True), "decoder": decoder(masked=False)},
            {**START, "model_type": 2},
        ),
        (
            "WhisperBeamSearch",
            [SPEECH, LENGTH, None, BEAMS, BEAMS],
            {"encoder": encoder(features=True), "decoder": decoder(masked=False, states=True)},
            START,
        ),
    ],
)
def test_states_stay_on_the_device(
    op_type: str, inputs: list[Any], graphs: dict[str, GraphProto], attributes: dict[str, Any]
) -> None:
    """And the same tokens come out."""
    names = ("input_ids", "max_length", "min_length", "num_beams", "num_return_sequences")
    given = {name: value for name, value in zip(names, inputs, strict=False) if value is not None}
    (wanted,) = generate(op_type, given, graphs, **attributes)
    if op_type == "WhisperBeamSearch":  # features are read where they are
        inputs = [to_device(inputs[0]), *inputs[1:]]
    (found,) = run(
        op_type,
        inputs,
        domain="com.microsoft",
        xp=array_module,
        subgraphs={name: _on_device(name, graph) for name, graph in graphs.items()},
        **attributes,
        **{name: _signature(graph) for name, graph in graphs.items()},
    )
    np.testing.assert_array_equal(found, wanted)
