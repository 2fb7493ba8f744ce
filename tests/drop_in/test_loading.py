"""Loading side by side with onnxruntime: every wrong or unusual model is taken or refused alike, by the same class."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ort_py
from tests.drop_in.both_runtimes import Case, expect_agreement, expect_difference

CPU = ["CPUExecutionProvider"]
FLOAT = TensorProto.FLOAT


def info(name: str, shape: Any, kind: int = FLOAT) -> onnx.ValueInfoProto:
    """A declared value."""
    return helper.make_tensor_value_info(name, kind, shape)


def proto(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto] | None = None,
    outputs: list[onnx.ValueInfoProto] | None = None,
    *,
    opset: int = 17,
    ir_version: int = 8,
    domains: dict[str, int] | None = None,
) -> onnx.ModelProto:
    """A model of some nodes from x to y."""
    graph = helper.make_graph(nodes, "g", inputs or [info("x", ["N", 3])], outputs or [info("y", ["N", 3])])
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(*item) for item in (domains or {}).items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def node(op_type: str, inputs: str, outputs: str, domain: str = "", **attributes: Any) -> onnx.NodeProto:
    """A node; names are separated by blanks."""
    return helper.make_node(op_type, inputs.split(), outputs.split(), domain=domain, **attributes)


RELU = proto([node("Relu", "x", "y")])


def edited(edit: Callable[[onnx.ModelProto], Any]) -> onnx.ModelProto:
    """The Relu model after an edit."""
    copy = onnx.ModelProto()
    copy.CopyFrom(RELU)
    edit(copy)
    return copy


def loads(content: Any) -> Case:
    """A case that opens a model and gives what it declares."""
    source = content.SerializeToString() if isinstance(content, onnx.ModelProto) else content

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        session = runtime.InferenceSession(source, options, providers=CPU)
        return [
            [(found.name, found.type, found.shape) for found in values]
            for values in (session.get_inputs(), session.get_outputs(), session.get_overridable_initializers())
        ]

    return case


MODELS: dict[str, Any] = {
    "empty bytes": b"",
    "garbage": b"this is not a model at all",
    "truncated": RELU.SerializeToString()[:-9],
    "no graph": edited(lambda model: model.ClearField("graph")),
    "no IR version": edited(lambda model: model.ClearField("ir_version")),
    "IR version 99": edited(lambda model: setattr(model, "ir_version", 99)),
    "no opset": edited(lambda model: model.ClearField("opset_import")),
    "opset 0": proto([node("Relu", "x", "y")], opset=0),
    "opset 1": proto([node("Identity", "x", "y")], opset=1, ir_version=3),
    "opset 3": proto([node("Identity", "x", "y")], opset=3, ir_version=3),
    "opset 6": proto([node("Identity", "x", "y")], opset=6, ir_version=3),
    "opset 26": proto([node("Relu", "x", "y")], opset=26, ir_version=13),
    "opset 99": proto([node("Relu", "x", "y")], opset=99),
    **{
        f"GroupNormalization, opset {opset}": proto(
            [node("GroupNormalization", "x scale bias", "y", num_groups=1)],
            [info("x", ["N", 3]), info("scale", [1]), info("bias", [1])],
            opset=opset,
        )
        for opset in (17, 18, 20)
    },
    "Upsample, opset 10": proto([node("Upsample", "x s", "y")], [info("x", ["N", 3]), info("s", [2])], opset=10),
    "Scatter, opset 11": proto(
        [node("Scatter", "x i x", "y")], [info("x", ["N", 3]), info("i", ["N", 3], TensorProto.INT64)], opset=11
    ),
    "ml opset 99": proto([node("Relu", "x", "y")], domains={"ai.onnx.ml": 99}),
    "ml opset 5": proto([node("Relu", "x", "y")], domains={"ai.onnx.ml": 5}),
    "ml opset 6": proto([node("Relu", "x", "y")], domains={"ai.onnx.ml": 6}),
    "com.microsoft opset 1": proto([node("Relu", "x", "y")], domains={"com.microsoft": 1}),
    "com.microsoft opset 2": proto([node("Relu", "x", "y")], domains={"com.microsoft": 2}),
    "unknown standard operator": proto([node("Frobnicate", "x", "y")]),
    "unknown domain": proto([node("Frobnicate", "x", "y", "com.example")], domains={"com.example": 1}),
    "unused unknown domain": proto([node("Relu", "x", "y")], domains={"com.example": 1}),
    "com.microsoft not imported": proto([node("Gelu", "x", "y", "com.microsoft")]),
    "forbidden dtype": proto(
        [node("Relu", "x", "y")],
        [info("x", [2], TensorProto.STRING)],
        [info("y", [2], TensorProto.STRING)],
    ),
    "one variable, two types": proto(
        [node("Add", "x z", "y")], [info("x", [2]), info("z", [2], TensorProto.INT64)], [info("y", [2])]
    ),
    "missing attribute": proto([node("Cast", "x", "y")]),
    "unknown attribute": proto([node("Relu", "x", "y", slope=0.1)]),
    "attribute of a wrong type": proto([node("Softmax", "x", "y", axis="last")]),
    "too many inputs": proto([node("Relu", "x x", "y")]),
    "too few inputs": proto([node("Add", "x", "y")]),
    "too many outputs": proto([node("Relu", "x", "y z")]),
    "dangling input": proto([node("Relu", "nowhere", "y")]),
    "dangling output": proto([node("Relu", "x", "z")]),
    "cycle": proto([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "b", "y")]),
    "one name twice": proto([node("Relu", "x", "y"), node("Abs", "x", "y")]),
    "one input twice": proto([node("Relu", "x", "y")], [info("x", [2]), info("x", [2])], [info("y", [2])]),
    "not sorted": proto([node("Relu", "z", "y"), node("Abs", "x", "z")]),
    "contradicting shapes": proto([node("Add", "x z", "y")], [info("x", [2, 3]), info("z", [2, 4])], [info("y", None)]),
    "wrong output shape": proto([node("Relu", "x", "y")], [info("x", [2, 3])], [info("y", [7, 7])]),
    "wrong output dtype": proto([node("Relu", "x", "y")], [info("x", [2])], [info("y", [2], TensorProto.INT64)]),
    "negative dimension": proto([node("Relu", "x", "y")], [info("x", [-1, 3])], [info("y", [-1, 3])]),
    "no nodes": proto([], [info("x", [2])], [info("x", [2])]),
    "no outputs": edited(lambda model: model.graph.ClearField("output")),
    "input without a type": edited(lambda model: model.graph.input[0].ClearField("type")),
    "output without a type": edited(lambda model: model.graph.output[0].ClearField("type")),
    "unnamed graph": edited(lambda model: model.graph.ClearField("name")),
    "opset 27": proto([node("Relu", "x", "y")], opset=27, ir_version=13),
    "metadata": edited(lambda model: model.metadata_props.add(key="a", value="b")),
}
"""What a model's file can hold, one thing wrong or unusual each."""

MODELS |= {
    f"IR version {version}": proto([node("Relu", "x", "y")], opset=8, ir_version=version) for version in range(1, 15)
}

DELIBERATE: dict[str, tuple[Any, str]] = {
    "wrong output shape": (
        [[("x", "tensor(float)", [2, 3])], [("y", "tensor(float)", [2, 3])], []],
        "onnxruntime forgets both shapes; the true one is known",
    ),
    "opset 27": ([[("x", "tensor(float)", ["N", 3])], [("y", "tensor(float)", ["N", 3])], []], "onnx defines it"),
    "IR version 14": ([[("x", "tensor(float)", ["N", 3])], [("y", "tensor(float)", ["N", 3])], []], "onnx defines it"),
}
"""Models on which the two differ: what ort-py gives or raises, and why."""


@pytest.mark.parametrize("name", sorted(set(MODELS) - set(DELIBERATE)))
def test_models_are_taken_and_refused_alike(name: str) -> None:
    """Both runtimes load the model and declare the same, or raise a class of the same name."""
    expect_agreement(loads(MODELS[name]))


@pytest.mark.parametrize("name", sorted(DELIBERATE))
def test_models_that_are_taken_otherwise(name: str) -> None:
    """Where the specification allows more than onnxruntime, ort-py follows the specification."""
    expect_difference(loads(MODELS[name]), DELIBERATE[name][0])


def test_newer_opsets_are_allowed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime's environment variable lets it load an opset it was not released for; ort-py needs none."""
    monkeypatch.setenv("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")
    expect_agreement(loads(MODELS["opset 27"]))


# -- what is given as the model ------------------------------------------------------------------------------------


def written(folder: Path, content: bytes = RELU.SerializeToString()) -> Path:
    """A file with a model."""
    path = folder / "model.onnx"
    path.write_bytes(content)
    return path


FILES: dict[str, Callable[[Path], Any]] = {
    "path as text": lambda folder: str(written(folder)),
    "path object": written,
    "missing, text": lambda folder: str(folder / "none.onnx"),
    "missing, path": lambda folder: folder / "none.onnx",
    "folder": str,
    "empty file": lambda folder: written(folder, b""),
    "garbage": lambda folder: written(folder, b"no model"),
    "other ending": lambda folder: str(written(folder).rename(folder / "model.bin")),
    "empty path": lambda folder: "",
    "None": lambda folder: None,
    "number": lambda folder: 3,
    "file object": lambda folder: io.BytesIO(RELU.SerializeToString()),
}


@pytest.mark.parametrize("name", sorted(FILES))
def test_sources_are_taken_and_refused_alike(name: str, tmp_path: Path) -> None:
    """Paths of all kinds load; what is not a model, no file or no path is refused by the same class."""
    source = FILES[name](tmp_path)
    expect_agreement(loads(source))


@pytest.mark.parametrize("kind", [bytearray, memoryview, onnx.ModelProto.FromString])
def test_ort_py_takes_more_than_bytes(kind: Callable[[bytes], Any]) -> None:
    """Buffers and messages of the onnx package are models too; onnxruntime raises TypeError."""

    def case(runtime: Any) -> Any:
        return [found.name for found in runtime.InferenceSession(kind(RELU.SerializeToString())).get_inputs()]

    expect_difference(case, ["x"])


# -- keyword arguments ---------------------------------------------------------------------------------------------

ARGUMENTS: dict[str, dict[str, Any]] = {
    "none": {},
    "fallback off": {"enable_fallback": 0},
    "fallback as text": {"enable_fallback": "1"},
    "fallback no number": {"enable_fallback": "x"},
    "fallback None": {"enable_fallback": None},
    "unknown optimiser": {"disabled_optimizers": ["Nope"]},
    "optimisers as a set": {"disabled_optimizers": {"ConstantFolding"}},
    "optimisers a number": {"disabled_optimizers": 3},
    "optimisers of numbers": {"disabled_optimizers": [1]},
    "config": {"read_config_from_model": 1},
    "config no number": {"read_config_from_model": "x"},
}


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_arguments_are_taken_and_refused_alike(name: str) -> None:
    """Each argument of a session is accepted, or refused by the same class."""

    def case(runtime: Any) -> Any:
        session = runtime.InferenceSession(RELU.SerializeToString(), providers=CPU, **ARGUMENTS[name])
        return session.run(None, {"x": np.ones((1, 3), np.float32)})

    expect_agreement(case)


@pytest.mark.parametrize("options", [None, {}, 0, {"a": 1}, "fast"])
def test_only_options_are_options(options: Any) -> None:
    """A falsy value counts as none, anything else but options is refused."""
    expect_agreement(lambda runtime: runtime.InferenceSession(RELU.SerializeToString(), options).get_providers())


def test_unknown_arguments_are_told() -> None:
    """onnxruntime ignores them silently; ort-py says so, and suggests what may be meant."""
    with pytest.warns(UserWarning, match="no argument 'provider'; it is ignored. Did you mean 'providers'"):
        ort_py.InferenceSession(RELU.SerializeToString(), provider=CPU)


def test_unknown_arguments_are_not_told_in_compatibility_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Applications that run unchanged get onnxruntime's silence; warnings are errors in these tests."""
    monkeypatch.setenv("ORT_PY_COMPAT", "1")
    assert ort_py.InferenceSession(RELU.SerializeToString(), provider=CPU).get_providers() == CPU


CONFIGS: dict[str, str] = {
    "all": '{"session_options": {"intra_op_num_threads": 1, "inter_op_num_threads": 2, "execution_mode": 1, '
    '"graph_optimization_level": 1, "enable_profiling": 0}}',
    "nothing": "{}",
    "no JSON": "{",
    "unknown setting": '{"session_options": {"speed": 1}}',
    "wrong kind": '{"session_options": {"intra_op_num_threads": "x"}}',
    "no such level": '{"session_options": {"graph_optimization_level": 7}}',
    "no such mode": '{"session_options": {"execution_mode": 7}}',
}


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_settings_in_the_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings a model carries count where the environment says so, and malformed ones are refused alike."""
    monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")
    carrying = edited(lambda model: model.metadata_props.add(key="ort_config", value=CONFIGS[name]))

    def case(runtime: Any) -> Any:
        session = runtime.InferenceSession(carrying.SerializeToString(), providers=CPU)
        names = ("intra_op_num_threads", "inter_op_num_threads", "execution_mode", "graph_optimization_level")
        return [getattr(session.get_session_options(), found) for found in names]

    with contextlib.redirect_stdout(io.StringIO()):  # onnxruntime prints a banner
        expect_agreement(case)


# -- cancelling ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [(True,), (True, False), (False,), (1,)])
def test_loading_is_cancelled_alike(flags: tuple[Any, ...]) -> None:
    """The last value of the flag counts."""

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        for flag in flags:
            options.set_load_cancellation_flag(flag)
        return runtime.InferenceSession(RELU.SerializeToString(), options, providers=CPU).get_providers()

    expect_agreement(case)


# -- overridable initializers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ir_version", [3, 4, 8, 10])
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("fed", [True, False])
def test_initializers_may_be_fed_alike(ir_version: int, listed: bool, fed: bool) -> None:
    """An initializer that is an input too may be fed, from IR version 4 on; it is never a required input."""
    inputs = [info("x", ["N", 3]), *([info("w", [3])] if listed else [])]
    model = proto([node("Mul", "x w", "y")], inputs, opset=8, ir_version=ir_version)
    model.graph.initializer.append(numpy_helper.from_array(np.full(3, 2, np.float32), "w"))
    feed = {"x": np.ones((1, 3), np.float32)} | ({"w": np.full(3, 5, np.float32)} if fed else {})

    def case(runtime: Any) -> Any:
        session = runtime.InferenceSession(model.SerializeToString(), providers=CPU)
        listings = (session.get_inputs(), session.get_overridable_initializers())
        return [[found.name for found in values] for values in listings], session.run(None, feed)

    expect_agreement(case)
