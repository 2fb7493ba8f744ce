"""A session's wishes as OpenVINO's device and properties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ort_py.contracts import SessionContext
from ort_py.errors import EPFail, OptionError
from ort_py_openvino.options import OPTIONS
from ort_py_openvino.properties import Target, target_of
from ort_py_openvino.runtime import check_device


def target(context: SessionContext | None = None, **given: Any) -> Target:
    """The target for options, the others as they are by default."""
    return target_of({**{one.name: one.default for one in OPTIONS}, **given}, context or SessionContext(threads=3))


def test_float32_and_the_sessions_threads_by_default() -> None:
    """OpenVINO itself would take bfloat16 where the processor has it, and every processor."""
    found = target()
    assert found.device == "CPU"
    assert found.properties["INFERENCE_PRECISION_HINT"] == "f32"
    assert found.properties["INFERENCE_NUM_THREADS"] == 3
    assert found.properties["NUM_STREAMS"] == 1


@pytest.mark.parametrize(
    ("asked", "session", "hint"),
    [("", "bfloat16", "bf16"), ("FP16", "bfloat16", "f16"), ("FP32", "bfloat16", "f32"), ("bf16", "float32", "bf16")],
)
def test_the_option_beats_the_sessions_precision(asked: str, session: str, hint: str) -> None:
    """And is read as onnxruntime's users write it."""
    found = target(SessionContext(precision=session), precision=asked)
    assert found.properties["INFERENCE_PRECISION_HINT"] == hint


def test_nothing_is_rounded_that_nobody_asked_for() -> None:
    """By default OpenVINO rounds factors of integer weights to 8 bits; it does not if it is set to prefer accuracy."""
    assert target().properties["EXECUTION_MODE_HINT"] == "ACCURACY"
    assert target(precision="BF16").properties["EXECUTION_MODE_HINT"] == "ACCURACY"


def test_devices_of_a_list_are_told_what_they_would_be_alone() -> None:
    """Threads and precision for the processor; whatever of `load_config` is for one of them."""
    text = '{"GPU": {"CACHE_MODE": "OPTIMIZE_SIZE"}, "CPU": {"NUM_STREAMS": "3"}, "AUTO": {"PERF_COUNT": "YES"}}'
    found = target(device_type="AUTO:GPU.1,CPU", num_of_threads=2, load_config=text).properties
    devices = found["DEVICE_PROPERTIES"]
    assert (devices["CPU"]["INFERENCE_NUM_THREADS"], devices["CPU"]["NUM_STREAMS"]) == (2, "3")
    assert devices["GPU.1"]["CACHE_MODE"] == "OPTIMIZE_SIZE"
    assert "INFERENCE_NUM_THREADS" not in devices["GPU.1"]
    assert found["PERF_COUNT"] == "YES"
    assert target(device_type="AUTO").properties["DEVICE_PROPERTIES"]["CPU"]["INFERENCE_NUM_THREADS"] == 3


def test_accuracy_leaves_each_tensor_its_type() -> None:
    assert target(precision="ACCURACY").properties["EXECUTION_MODE_HINT"] == "ACCURACY"


def test_numbers_that_are_given() -> None:
    found = target(num_of_threads=2, num_streams=2).properties
    assert (found["INFERENCE_NUM_THREADS"], found["NUM_STREAMS"]) == (2, 2)


def test_other_devices_get_no_threads() -> None:
    found = target(device_type="gpu.1", num_streams=2, model_priority="HIGH", cache_dir="here")
    assert found.device == "GPU.1"
    assert "INFERENCE_NUM_THREADS" not in found.properties
    assert found.properties["NUM_STREAMS"] == 2
    assert (found.properties["MODEL_PRIORITY"], found.properties["CACHE_DIR"]) == ("HIGH", "here")


def test_load_config_beats_the_options(tmp_path: Path) -> None:
    """Configurations come as text and as a file, by device."""
    text = '{"CPU": {"NUM_STREAMS": "4"}, "GPU": {"NUM_STREAMS": "8"}}'
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8")
    assert target(load_config=text).properties["NUM_STREAMS"] == "4"
    assert target(load_config=str(file), device_type="GPU.0").properties["NUM_STREAMS"] == "8"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"reshape_input": "x["}, "reshape_input='x\\[' cannot be read"),
        ({"device_type": "TPU"}, "device_type='TPU' is not a device of OpenVINO"),
        ({"precision": "FP8"}, "precision='FP8' is not a precision that OpenVINO supports"),
        ({"load_config": "{"}, "load_config cannot be read"),
        ({"load_config": "/no/such/file"}, "load_config cannot be read"),
        ({"load_config": '{"CPU": 3}'}, "load_config cannot be read"),
    ],
)
def test_values_that_are_none(given: dict[str, Any], words: str) -> None:
    """Each says what there is instead."""
    with pytest.raises(OptionError, match=words):
        target(**given)


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(EPFail, match=r"no device NPU\.7 on this machine; it finds CPU"):
        check_device("HETERO:NPU.7,CPU")
    check_device("AUTO")
    check_device("CPU")
