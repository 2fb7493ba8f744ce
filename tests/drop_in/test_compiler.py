"""ModelCompiler: the same files, errors and defaults as onnxruntime's, which with the CPU alone compiles nothing."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ort_py
from tests.drop_in.both_runtimes import OURS, THEIRS, expect_agreement, expect_difference, model

CPU = ["CPUExecutionProvider"]
LINEAR = model(
    "g (float[N, 2] x) => (float[N, 3] y) <float[2, 3] w = {1,2,3,4,5,6}> { h = MatMul (x, w) y = Relu (h) }"
)


def compiler(runtime: Any, source: Any = LINEAR, **arguments: Any) -> Any:
    """A compiler for the plain CPU provider, which is the only one onnxruntime has here."""
    options = runtime.SessionOptions()
    if runtime is OURS:
        options.pin_cpu = True
    return runtime.ModelCompiler(options, source, **arguments)


def initializers(data: bytes | Path) -> Any:
    """Place of each constant of a model."""
    loaded = onnx.load_model_from_string(data) if isinstance(data, bytes) else onnx.load(data, load_external_data=False)
    return [
        (one.name, one.data_location, sorted((entry.key, entry.value) for entry in one.external_data))
        for one in loaded.graph.initializer
    ]


def test_parameters() -> None:
    """Names and defaults of all methods."""
    for name in ("__init__", "compile_to_file", "compile_to_bytes", "compile_to_stream"):
        ours, theirs = (inspect.signature(getattr(runtime.ModelCompiler, name)) for runtime in (OURS, THEIRS))
        assert [(one.name, _plain(one.default)) for one in ours.parameters.values()] == [
            (one.name, _plain(one.default)) for one in theirs.parameters.values()
        ]


def _plain(value: Any) -> Any:
    return int(value) if hasattr(value, "name") else value


def test_the_result_runs_and_is_the_same_model(tmp_path: Path) -> None:
    """File, bytes and stream hold one model, which gives what the original gives."""
    ours = compiler(ort_py)
    ours.compile_to_file(tmp_path / "out.onnx")
    pieces: list[bytes] = []
    ours.compile_to_stream(pieces.append)
    data = ours.compile_to_bytes()
    assert (tmp_path / "out.onnx").read_bytes() == b"".join(pieces) == data
    feed = {"x": np.array([[1, -2], [3, 4]], np.float32)}
    expected = THEIRS.InferenceSession(LINEAR, providers=CPU).run(None, feed)[0]
    for runtime in (OURS, THEIRS):
        np.testing.assert_allclose(runtime.InferenceSession(data, providers=CPU).run(None, feed)[0], expected)


@pytest.mark.parametrize(
    "source",
    [LINEAR, "absent.onnx", "", b"", None, b"junk", bytearray(LINEAR)],
    ids=["bytes", "absent", "no path", "no bytes", "None", "junk", "bytearray"],
)
def test_sources(source: Any) -> None:
    expect_agreement(lambda runtime: type(compiler(runtime, source)).__name__)
    expect_agreement(lambda runtime: type(compiler(runtime, source).compile_to_bytes()).__name__)


@pytest.mark.parametrize(
    "arguments",
    [
        {"flags": 1},
        {"flags": "1"},
        {"external_initializers_file_path": 3},
        {"external_initializers_file_path": "x", "get_initializer_location_func": print},
        {"get_initializer_location_func": lambda *_: 3},
        {"get_initializer_location_func": lambda *_: 1 // 0},
    ],
    ids=["nothing compiled", "flags", "path", "both places", "wrong place", "function raises"],
)
def test_refused_arguments(arguments: dict[str, Any]) -> None:
    expect_agreement(lambda runtime: compiler(runtime, **arguments).compile_to_bytes())


@pytest.mark.parametrize("options", [None, {}], ids=str)
def test_options_are_needed(options: Any) -> None:
    """Nothing else is taken for options."""
    expect_agreement(lambda runtime: runtime.ModelCompiler(options, LINEAR))


@pytest.mark.parametrize("target", [None, 3, "absent/out.onnx"], ids=str)
def test_targets_that_are_none(target: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No path, no text, no folder."""
    monkeypatch.chdir(tmp_path)
    expect_agreement(lambda runtime: compiler(runtime).compile_to_file(target))


def test_an_existing_file_is_kept_where_that_was_asked(tmp_path: Path) -> None:
    """Overwritten by default, an error with the flag."""
    path = str(tmp_path / "out.onnx")
    expect_agreement(lambda runtime: compiler(runtime).compile_to_file(path))
    flag = int(ort_py.OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS)
    expect_agreement(lambda runtime: compiler(runtime, flags=flag).compile_to_file(path))


@pytest.mark.parametrize("function", [None, lambda _: 1 // 0], ids=["None", "raises"])
def test_streams_that_fail(function: Any) -> None:
    """An exception of the function is a failure of the compilation."""
    expect_agreement(lambda runtime: compiler(runtime).compile_to_stream(function))


@pytest.mark.parametrize("threshold", [0, 24, 25])
def test_constants_in_a_file(threshold: int, tmp_path: Path) -> None:
    """Those of so many bytes or more go into a file beside the model."""

    def case(runtime: Any) -> Any:
        folder = tmp_path / runtime.__name__
        folder.mkdir()
        compiler(
            runtime, external_initializers_file_path="w.bin", external_initializers_size_threshold=threshold
        ).compile_to_file(str(folder / "out.onnx"))
        return initializers(folder / "out.onnx")

    expect_agreement(case)


def test_an_absolute_path_beside_the_model(tmp_path: Path) -> None:
    """onnxruntime refuses it; here it counts by its name."""

    def case(runtime: Any) -> Any:
        made = compiler(
            runtime, external_initializers_file_path=tmp_path / "w.bin", external_initializers_size_threshold=0
        )
        made.compile_to_file(str(tmp_path / "out.onnx"))
        return initializers(tmp_path / "out.onnx")[0][2][1]

    expect_difference(case, ("location", "w.bin"))


def test_constants_are_placed_by_a_function(tmp_path: Path) -> None:
    """It gets name, value and present place, and says the new one."""
    path = str(tmp_path / "outside.onnx")
    compiler(ort_py, external_initializers_file_path="w.bin", external_initializers_size_threshold=0).compile_to_file(
        path
    )

    def case(runtime: Any) -> Any:
        seen = []

        def place(name: str, value: Any, present: Any) -> Any:
            seen.append((name, value.numpy(), present.filepath, present.file_offset, present.byte_size))
            return runtime.OrtExternalInitializerInfo("elsewhere.bin", 16, 24)

        data = compiler(runtime, path, get_initializer_location_func=place).compile_to_bytes()
        return initializers(data), seen

    expect_agreement(case)


def test_the_level_counts() -> None:
    """By default the graph stays as it is; a level above removes what does nothing."""
    source = model("g (float[2] x) => (float[2] y) { h = Identity (x) y = Relu (h) }")

    def nodes(runtime: Any, **arguments: Any) -> Any:
        data = compiler(runtime, source, **arguments).compile_to_bytes()
        return [node.op_type for node in onnx.load_model_from_string(data).graph.node]

    expect_agreement(nodes)
    expect_agreement(
        lambda runtime: nodes(runtime, graph_optimization_level=runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC)
    )


def test_compiled_data_needs_a_function() -> None:
    """Accepted and never called; None is refused."""
    expect_agreement(lambda runtime: compiler(runtime).set_ep_context_data_write_func(print))
    expect_agreement(lambda runtime: compiler(runtime).clear_ep_context_data_write_func())
    expect_agreement(lambda runtime: compiler(runtime).set_ep_context_data_write_func(None))
