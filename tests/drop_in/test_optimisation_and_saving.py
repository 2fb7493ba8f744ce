"""Optimisation levels and the optimised model as a file, side by side with onnxruntime.

Which nodes are fused, and what they are called then, is each runtime's own business: a fusion that belongs to one
provider happens inside it here and is not in the file. What programs depend on is that the file is there, loads, and
computes the same, and where its weights are.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ort_py
from tests.drop_in.both_runtimes import expect_agreement, expect_difference, model

CPU = ["CPUExecutionProvider"]
LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_LAYOUT", "ORT_ENABLE_ALL")
FILE = "session.optimized_model_external_initializers_file_name"
SMALLEST = "session.optimized_model_external_initializers_min_size_in_bytes"
X = np.arange(6, dtype=np.float32).reshape(2, 3)

DENSE = """
g (float[N, 3] x) => (float[N, 4] y)
<float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[4] b = {1, -40, 3, -80}> {
    m = MatMul(x, w)
    a = Add(m, b)
    y = Relu(a)
}
"""
FOLDING = """
g (float[N, 3] x) => (float[N, 3] y) {
    a = Constant <value_floats = [1.0]> ()
    b = Constant <value_floats = [2.0]> ()
    c = Add(a, b)
    i = Identity(x)
    d = Dropout(i)
    y = Mul(d, c)
}
"""


def saved(
    runtime: Any,
    folder: Path,
    text: str = DENSE,
    level: str = "ORT_DISABLE_ALL",
    name: str = "optimised.onnx",
    entries: dict[str, str] | None = None,
) -> tuple[Path, Any]:
    """The path of an optimised model, written below a folder of the runtime's own, and the results of its session."""
    own = folder / runtime.__name__
    own.mkdir(exist_ok=True)
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(own / name)
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    session = runtime.InferenceSession(model(text), options, providers=CPU)
    return own / name, session.run(None, {"x": X})


def operators(path: Path) -> list[str]:
    """Operators of a file, in order."""
    return [node.op_type for node in onnx.load(path, load_external_data=False).graph.node]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("text", [DENSE, FOLDING], ids=["dense", "folding"])
def test_the_file_loads_and_computes_the_same(text: str, level: str, tmp_path: Path) -> None:
    """At every level, the results of the session, of the file, and of the other runtime are the same."""

    def case(runtime: Any) -> Any:
        path, results = saved(runtime, tmp_path, text, level)
        again = runtime.InferenceSession(path, providers=CPU).run(None, {"x": X})
        np.testing.assert_array_equal(again[0], results[0])
        return results

    expect_agreement(case)


@pytest.mark.parametrize("level", LEVELS)
def test_constants_are_folded_alike(level: str, tmp_path: Path) -> None:
    """Nothing changes while all is off; from the basic level on only the node that depends on the input is left."""
    expect_agreement(lambda runtime: operators(saved(runtime, tmp_path, FOLDING, level)[0]))


def test_without_optimisation_the_graph_stays(tmp_path: Path) -> None:
    """Its operators are written as they were read."""
    expect_agreement(lambda runtime: operators(saved(runtime, tmp_path, DENSE, "ORT_DISABLE_ALL")[0]))


@pytest.mark.parametrize("level", LEVELS[1:])
def test_the_file_holds_the_operators_of_onnxruntime(level: str, tmp_path: Path) -> None:
    """A Gemm from the first level on, fused with its activation from the second on."""
    expect_agreement(lambda runtime: operators(saved(runtime, tmp_path, DENSE, level)[0]))


@pytest.mark.parametrize("level", LEVELS[1:])
def test_onnxruntime_runs_the_file(level: str, tmp_path: Path) -> None:
    """It passes ONNX's checker, is standard ONNX at the first level, and computes the same in onnxruntime."""
    import onnxruntime

    path, results = saved(ort_py, tmp_path, DENSE, level)
    onnx.checker.check_model(path)
    if level == "ORT_ENABLE_BASIC":
        assert {node.domain for node in onnx.load(path).graph.node} == {""}
    theirs = onnxruntime.InferenceSession(path, providers=CPU).run(None, {"x": X})
    np.testing.assert_allclose(theirs[0], results[0], rtol=1e-6)


@pytest.mark.parametrize("disabled", [["MatMulAddFusion"], ["ConstantFolding"], ["Nope"], []])
def test_optimisers_are_disabled_by_name(disabled: list[str]) -> None:
    """Names that only the other runtime has are accepted, and results stay."""

    def case(runtime: Any) -> Any:
        session = runtime.InferenceSession(model(DENSE), providers=CPU, disabled_optimizers=disabled)
        return session.run(None, {"x": X})

    expect_agreement(case)


# -- weights in a second file --------------------------------------------------------------------------------------


def weights(runtime: Any, folder: Path, entries: dict[str, str]) -> Any:
    """Place of each initializer of the written model, and the names of its files."""
    path, results = saved(runtime, folder, entries=entries)
    proto = onnx.load(path, load_external_data=False)
    places = {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data} for tensor in proto.graph.initializer
    }
    again = runtime.InferenceSession(path, providers=CPU).run(None, {"x": X})
    np.testing.assert_array_equal(again[0], results[0])
    return sorted(file.name for file in path.parent.iterdir()), places


ENTRIES: dict[str, dict[str, str]] = {
    "all": {FILE: "weights.bin", SMALLEST: "16"},
    "the larger one": {FILE: "weights.bin", SMALLEST: "20"},
    "none is large enough": {FILE: "weights.bin", SMALLEST: "1000"},
    "size not given": {FILE: "weights.bin"},
    "size without a file": {SMALLEST: "1"},
    "size is not a number": {FILE: "weights.bin", SMALLEST: "many"},
    "size is negative": {FILE: "weights.bin", SMALLEST: "-1"},
    "absolute": {FILE: "/nowhere/weights.bin"},
    "above": {FILE: "../weights.bin", SMALLEST: "16"},
    "below, where nothing is": {FILE: "nowhere/weights.bin", SMALLEST: "16"},
}


@pytest.mark.parametrize("name", ENTRIES)
def test_weights_go_into_a_second_file_alike(name: str, tmp_path: Path) -> None:
    """The same weights at the same offsets, or the same refusal; the pair loads again."""
    expect_agreement(lambda runtime: weights(runtime, tmp_path, ENTRIES[name]))


def test_a_size_that_is_no_number_is_named(tmp_path: Path) -> None:
    """The entry, its value and what to do."""
    with pytest.raises(ort_py.Fail, match=f"{SMALLEST}' is 'many', which is not a number of bytes") as caught:
        saved(ort_py, tmp_path, entries=ENTRIES["size is not a number"])
    assert caught.value.fix


# -- the path ------------------------------------------------------------------------------------------------------

PATHS = {
    "no such folder": "nowhere/optimised.onnx",
    "a folder": ".",
    "another ending": "optimised.bin",
    "none": "plain",
}


@pytest.mark.parametrize("name", PATHS)
def test_paths_are_taken_and_refused_alike(name: str, tmp_path: Path) -> None:
    """Any name of a file is; what cannot be written is refused by the same class."""

    def case(runtime: Any) -> Any:
        path, results = saved(runtime, tmp_path, name=PATHS[name])
        return operators(path), results

    with contextlib.redirect_stdout(io.StringIO()):  # onnxruntime prints a banner
        expect_agreement(case)


ORT_FORMAT: dict[str, dict[str, Any]] = {
    "by its ending": {"name": "optimised.ort"},
    "by the entry": {"entries": {"session.save_model_format": "ORT"}},
}


@pytest.mark.parametrize("name", ORT_FORMAT)
def test_the_format_of_onnxruntime_is_not_written(name: str, tmp_path: Path) -> None:
    """Only onnxruntime reads it; asking for it is refused, not answered with another format."""
    expect_difference(lambda runtime: saved(runtime, tmp_path, **ORT_FORMAT[name])[0].is_file(), ort_py.Fail)
