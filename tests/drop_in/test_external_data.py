"""Constants of a model, beside it or inside, side by side with onnxruntime: where they may be, and wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import ort_py
from tests.drop_in.both_runtimes import Case, expect_agreement, expect_difference, model

CPU = ["CPUExecutionProvider"]
MUL = model("g (float[N, 3] x) => (float[N, 3] y) { y = Mul(x, w) }")
X = np.ones((1, 3), np.float32)
FLOATS = np.arange(8, dtype=np.float32).tobytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a model: files, links and a folder below it; another file lies above it."""
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    for name in ("w.bin", "sub/w.bin", "../outside.bin"):
        (folder / name).write_bytes(FLOATS)
    (folder / "short.bin").write_bytes(FLOATS[:8])
    (folder / "empty.bin").write_bytes(b"")
    (folder / "inside_link.bin").symlink_to("w.bin")
    (folder / "outside_link.bin").symlink_to("../outside.bin")
    return folder


def with_data(**entries: str) -> onnx.ModelProto:
    """A model whose constant of three floats lies where the entries say."""
    proto = onnx.load_from_string(MUL)
    tensor = proto.graph.initializer.add(
        name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL
    )
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return proto


def runs(path: Path, prepare: Callable[[Any, Any], None] | None = None) -> Case:
    """A case that runs the model at a path."""

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        if prepare is not None:
            prepare(runtime, options)
        return runtime.InferenceSession(str(path), options, providers=CPU).run(None, {"x": X})

    return case


def saved(folder: Path, **entries: str) -> Path:
    """The model of these entries in the folder."""
    onnx.save(with_data(**entries), folder / "model.onnx")
    return folder / "model.onnx"


PLACES: dict[str, dict[str, str]] = {
    "beside the model": {"location": "w.bin"},
    "in a folder below": {"location": "sub/w.bin"},
    "with a dot": {"location": "./w.bin"},
    "from an offset": {"location": "w.bin", "offset": "4", "length": "12"},
    "from an odd offset": {"location": "w.bin", "offset": "1", "length": "12"},
    "through a link in the folder": {"location": "inside_link.bin"},
    "through a link out of the folder": {"location": "outside_link.bin"},
    "above the folder": {"location": "../outside.bin"},
    "above the folder, missing": {"location": "../none.bin"},
    "an absolute path outside": {"location": "/etc/passwd"},
    "missing": {"location": "none.bin"},
    "too short": {"location": "short.bin"},
    "empty": {"location": "empty.bin"},
    "a folder": {"location": "sub"},
    "no name": {"location": ""},
    "another system's separator": {"location": "sub\\w.bin"},
    "an address in memory": {"location": "*/_ORT_MEM_ADDR_/*", "offset": "0", "length": "12"},
    "length too small": {"location": "w.bin", "length": "4"},
    "length too large": {"location": "w.bin", "length": "16"},
    "length beyond the file": {"location": "w.bin", "length": "400"},
    "offset beyond the file": {"location": "w.bin", "offset": "400", "length": "12"},
    "offset negative": {"location": "w.bin", "offset": "-4", "length": "12"},
    "offset a word": {"location": "w.bin", "offset": "x", "length": "12"},
}


@pytest.mark.parametrize("name", PLACES)
def test_files_are_found_and_refused_alike(name: str, folder: Path) -> None:
    """Relative to the model's file and never outside its folder; what is wrong with one is a `Fail` when it loads."""
    expect_agreement(runs(saved(folder, **PLACES[name])))


def test_an_absolute_path_in_the_folder(folder: Path) -> None:
    """It is refused too: a model may be moved."""
    expect_agreement(runs(saved(folder, location=str(folder / "w.bin"))))


def test_dots_that_stay_inside(folder: Path) -> None:
    """onnxruntime resolves the path; here no path may climb, wherever it leads."""
    expect_difference(runs(saved(folder, location="sub/../w.bin")), ort_py.Fail)


def test_the_working_directory_does_not_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is given by a relative path has its files beside it."""
    saved(folder, location="w.bin")
    monkeypatch.chdir(folder.parent)
    expect_agreement(runs(Path("model/model.onnx")))
    (folder.parent / "w.bin").write_bytes(FLOATS)
    (folder / "w.bin").unlink()
    expect_agreement(runs(Path("model/model.onnx")))


def test_the_config_entry_is_for_bytes_only(folder: Path, tmp_path: Path) -> None:
    """A model with a path of its own has its files beside it."""

    def elsewhere(_runtime: Any, options: Any) -> None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(tmp_path))

    expect_agreement(runs(saved(folder, location="w.bin"), elsewhere))


def test_missing_files_are_missed_without_an_optimiser(folder: Path) -> None:
    """Data is looked for at every level of optimisation."""

    def plainly(runtime: Any, options: Any) -> None:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL

    expect_agreement(runs(saved(folder, location="none.bin"), plainly))


# -- constants in the model ----------------------------------------------------------------------------------------

TENSORS: dict[str, dict[str, Any]] = {
    "right": {"raw_data": FLOATS[:12]},
    "in both fields": {"raw_data": FLOATS[:12], "float_data": [4, 5, 6]},
    "too few bytes": {"raw_data": FLOATS[:8]},
    "too many bytes": {"raw_data": FLOATS[:16]},
    "part of an element": {"raw_data": FLOATS[:11]},
    "too few numbers": {"float_data": [1]},
    "too many numbers": {"float_data": [1, 2, 3, 4]},
    "no data": {},
    "in the field of another type": {"int32_data": [1, 2, 3]},
    "negative size": {"dims": [-3], "raw_data": FLOATS[:12]},
    "size no machine has": {"dims": [1 << 62, 1 << 62], "raw_data": FLOATS[:12]},
    "of no type": {"data_type": 0, "raw_data": FLOATS[:12]},
    "of a type nobody knows": {"data_type": 77, "raw_data": FLOATS[:12]},
    "of a type the operator forbids": {"data_type": TensorProto.STRING, "raw_data": FLOATS[:12]},
}


@pytest.mark.parametrize("name", TENSORS)
def test_constants_are_taken_and_refused_alike(name: str) -> None:
    """A constant that does not have the data its type and shape need is a `Fail`."""
    proto = onnx.load_from_string(MUL)
    proto.graph.initializer.append(TensorProto(**{"name": "w", "data_type": 1, "dims": [3], **TENSORS[name]}))

    def case(runtime: Any) -> Any:
        return runtime.InferenceSession(proto.SerializeToString(), providers=CPU).run(None, {"x": X})

    expect_agreement(case)


def test_one_name_for_two_constants() -> None:
    """onnxruntime takes the last of them. ONNX forbids it, because the meaning is ambiguous."""
    proto = onnx.load_from_string(MUL)
    for factor in (2, 3):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.full(3, factor, np.float32), "w"))
    expect_difference(
        lambda runtime: runtime.InferenceSession(proto.SerializeToString(), providers=CPU).run(None, {"x": X}),
        ort_py.InvalidGraph,
    )
