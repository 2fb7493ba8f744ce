"""The profile's file and the optimised model's file, side by side with onnxruntime."""

from __future__ import annotations

import gc
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ort_py
from tests.drop_in.both_runtimes import Case, expect_agreement, model

CPU = ["CPUExecutionProvider"]
MODEL = model("g (float[N, 3] x) => (float[N, 3] y) <float[3] w = {2, 2, 2}> { a = Mul(x, w) y = Relu(a) }")
LARGE = model(
    f"g (float[N, 500] x) => (float[N, 500] y) <float[500] w = {{{', '.join(['2'] * 500)}}}> {{ y = Mul(x, w) }}"
)
X = np.ones((2, 3), np.float32)


def profiled(runtime: Any, prefix: Any, source: Any = MODEL) -> tuple[Any, list[dict[str, Any]]]:
    """A session that was profiled for one run, and the events of its file."""
    options = runtime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = prefix
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(source, options, providers=CPU)
    session.run(None, {"x": X})
    path = session.end_profiling()
    return session, json.loads(Path(path).read_text(encoding="utf-8"))


def form(value: Any) -> Any:
    """Types instead of values, through lists and mappings."""
    if isinstance(value, dict):
        return {key: form(item) for key, item in value.items()}
    return [form(item) for item in value] if isinstance(value, list) else type(value).__name__


def test_the_name_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default it has two underscores, a date and milliseconds, in the working directory."""
    monkeypatch.chdir(tmp_path)

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        options.enable_profiling = True
        session = runtime.InferenceSession(MODEL, options, providers=CPU)
        name = session.end_profiling()
        assert Path(name).is_file()
        return re.sub(r"\d", "0", name), session.end_profiling()

    expect_agreement(case)


@pytest.mark.parametrize("prefix", ["run", b"run", "", "nowhere/run"])
def test_prefixes_are_taken_alike(prefix: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that cannot be written: the name is returned, and nothing raised."""
    monkeypatch.chdir(tmp_path)

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = prefix
        return re.sub(r"\d", "0", runtime.InferenceSession(MODEL, options, providers=CPU).end_profiling())

    expect_agreement(case)


def test_nothing_is_written_where_profiling_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def case(runtime: Any) -> Any:
        session = runtime.InferenceSession(MODEL, providers=CPU)
        return session.end_profiling(), session.get_profiling_start_time_ns(), len(list(tmp_path.iterdir()))

    expect_agreement(case)


def test_when_profiling_began(tmp_path: Path) -> None:
    def case(runtime: Any) -> Any:
        before = time.time_ns()
        session, _ = profiled(runtime, str(tmp_path / "run"))
        return before <= session.get_profiling_start_time_ns() <= time.time_ns()

    expect_agreement(case)


def test_events_have_the_same_fields_and_order(tmp_path: Path) -> None:
    """Loading, initialisation, each node, the execution, the run: each with the fields and kinds of onnxruntime's."""

    def case(runtime: Any) -> Any:
        _, events = profiled(runtime, str(tmp_path / "run"))
        return [
            (event["cat"], event["name"], form({**event, "args": {}})) for event in events if event["cat"] == "Session"
        ]

    expect_agreement(case)


@pytest.mark.parametrize("kind", ["array", "uri"])
def test_loading_is_named_by_its_source(kind: str, tmp_path: Path) -> None:
    """Bytes are an array, files a URI."""
    path = tmp_path / "model.onnx"
    path.write_bytes(MODEL)

    def case(runtime: Any) -> Any:
        _, events = profiled(runtime, str(tmp_path / "run"), MODEL if kind == "array" else str(path))
        return events[0]["name"]

    expect_agreement(case)


def test_nodes_tell_what_they_read_and_write(tmp_path: Path) -> None:
    """Operator, provider, place, shapes and bytes, as texts where onnxruntime has texts."""
    told = (
        "op_name",
        "provider",
        "node_index",
        "input_type_shape",
        "output_type_shape",
        "activation_size",
        "parameter_size",
        "output_size",
    )

    def case(runtime: Any) -> Any:
        _, events = profiled(runtime, str(tmp_path / "run"))
        return [{key: event["args"][key] for key in told} for event in events if event["cat"] == "Node"]

    expect_agreement(case)


def names_of(path: Path) -> list[str]:
    """Names of a file's events about the session."""
    return [event["name"] for event in json.loads(path.read_text(encoding="utf-8")) if event["cat"] == "Session"]


def test_parallel_execution_has_the_same_events(tmp_path: Path) -> None:
    """The events of a session are called the same, whatever the mode."""

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = str(tmp_path / "run")
        options.execution_mode = runtime.ExecutionMode.ORT_PARALLEL
        session = runtime.InferenceSession(MODEL, options, providers=CPU)
        session.run(None, {"x": X})
        return names_of(Path(session.end_profiling()))

    expect_agreement(case)


def test_a_dropped_session_writes_its_file(tmp_path: Path) -> None:
    def case(runtime: Any) -> Any:
        folder = tmp_path / runtime.__name__
        folder.mkdir()
        options = runtime.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = str(folder / "run")
        session = runtime.InferenceSession(MODEL, options, providers=CPU)
        session.run(None, {"x": X})
        del session
        gc.collect()
        return [names_of(path) for path in folder.iterdir()]

    expect_agreement(case)


def test_runs_with_values_have_the_same_events(tmp_path: Path) -> None:
    """Bindings and values as plain feeds."""

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = str(tmp_path / "run")
        session = runtime.InferenceSession(MODEL, options, providers=CPU)
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        session.run_with_ort_values(None, {"x": runtime.OrtValue.ortvalue_from_numpy(X)})
        return names_of(Path(session.end_profiling()))

    expect_agreement(case)


def test_every_node_event_is_named_after_its_node(tmp_path: Path) -> None:
    """Nodes without a name are named after what they write, rather than after their operator and number."""
    _, events = profiled(ort_py, str(tmp_path / "run"))
    assert [event["name"] for event in events if event["cat"] == "Node"] == ["a_kernel_time", "y_kernel_time"]


# -- the optimised model -------------------------------------------------------------------------------------------

FILE = "session.optimized_model_external_initializers_file_name"
SIZE = "session.optimized_model_external_initializers_min_size_in_bytes"


def saves(folder: Path, name: str, *entries: tuple[str, str]) -> Case:
    """A case that saves the optimised model, and gives where its constants are; it must load again."""

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        options.optimized_model_filepath = str(folder / name)
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        for entry in entries:
            options.add_session_config_entry(*entry)
        runtime.InferenceSession(LARGE, options, providers=CPU)
        saved = onnx.load(folder / name, load_external_data=False)
        places = [
            [(entry.key, entry.value) for entry in tensor.external_data if entry.key in ("location", "length")]
            for tensor in saved.graph.initializer
        ]
        again = runtime.InferenceSession(str(folder / name), providers=CPU)
        files = sorted(path.name for path in folder.iterdir())
        return places, files, again.run(None, {"x": np.ones((1, 500), np.float32)})

    return case


@pytest.mark.parametrize(
    "entries",
    [
        (),
        ((FILE, "w.bin"),),
        ((FILE, "w.bin"), (SIZE, "10")),
        ((FILE, "w.bin"), (SIZE, "100000")),
        ((SIZE, "10"),),
    ],
)
def test_optimised_models_are_saved_alike(entries: Any, tmp_path: Path) -> None:
    """Constants stay inside, or go into the file beside the model where they are large enough."""
    expect_agreement(saves(tmp_path, "saved.onnx", *entries))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    expect_agreement(saves(tmp_path / "none", "saved.onnx"))


@pytest.mark.parametrize("name", ["/nowhere/w.bin", "none/w.bin"])
def test_a_file_for_constants_that_cannot_be(name: str, tmp_path: Path) -> None:
    expect_agreement(saves(tmp_path, "saved.onnx", (FILE, name), (SIZE, "10")))


@pytest.mark.parametrize("entries", [(), (("session.save_model_format", "ORT"),)])
def test_the_own_format_of_onnxruntime_is_refused(entries: Any, tmp_path: Path) -> None:
    """Only onnxruntime reads and writes it; nothing is written under a name that promises it."""
    options = ort_py.SessionOptions()
    options.optimized_model_filepath = tmp_path / ("saved.onnx" if entries else "saved.ort")
    for entry in entries:
        options.add_session_config_entry(*entry)
    with pytest.raises(ort_py.Fail, match="onnxruntime's own format"):
        ort_py.InferenceSession(MODEL, options, providers=CPU)
    assert list(tmp_path.iterdir()) == []
