"""A session's memory report, and the bound on its memory."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from core.tests.small_models import CPU, model_bytes
from ort_py import InferenceSession, Limits, MemoryLimitError, OptionError, SessionOptions
from ort_py.engine.memory_report import DeviceBytes, MemoryReport

WEIGHTED = "g (float[N, 1000] x) => (float[N, 1000] y) <float[1000] w> { y = Add(x, w) }"


def weighted() -> bytes:
    """A model with 4000 bytes of constants."""
    values = ", ".join(str(number) for number in range(1000))
    return model_bytes(WEIGHTED.replace("w>", f"w = {{{values}}}>"))


def limited(limit: int | None) -> SessionOptions:
    """Options with a limit."""
    options = SessionOptions()
    options.memory_limit_bytes = limit
    return options


def test_the_report_has_weights_and_what_runs_took() -> None:
    """Constants are counted before the first run, the peak of a run after it."""
    session = InferenceSession(weighted(), providers=CPU)
    report = session.memory_report()
    assert (report.weights, report.packed, report.high_water) == (4000, 0, 0)
    session.run(None, {"x": np.ones((5, 1000), np.float32)})
    report = session.memory_report()
    assert report.high_water == 20_000
    assert report.largest[0][1] == 20_000
    assert report.total == 4000 + report.workspace
    assert report.devices["cpu:0"].weights == 4000
    session.close()
    assert session.memory_report().weights == 0


def test_the_report_is_a_table_and_json() -> None:
    """People read the text, programs the dictionary."""
    report = MemoryReport(
        weights=3 << 20,
        weights_mapped=1 << 20,
        weights_released=2 << 20,
        packed=1 << 20,
        workspace=1 << 10,
        high_water=2048,
        largest=(("Conv 'c'", 1024),),
        limit=8 << 20,
        devices={"cpu:0": DeviceBytes(3 << 20, 1 << 20, 1 << 10)},
    )
    text = str(report)
    assert text.splitlines()[:3] == [
        "       weights   packed  workspace",
        "cpu:0  3.0 MiB  1.0 MiB    1.0 KiB",
        "total 4.0 MiB of 8.0 MiB",
    ]
    assert "1.0 MiB of the weights are mapped from files" in text
    assert "2.0 MiB of weights are in files only" in text
    assert "1.0 KiB  Conv 'c'" in text
    assert json.loads(json.dumps(report.to_dict()))["largest"] == [{"node": "Conv 'c'", "bytes": 1024}]


def test_the_limit_is_one_of_the_limits() -> None:
    """`memory_limit_bytes` is another name, so both ways of setting it are one."""
    options = SessionOptions()
    assert options.memory_limit_bytes is None
    options.memory_limit_bytes = 1 << 40
    assert options.limits == Limits(total_memory_bytes=1 << 40)
    options.limits = Limits(total_memory_bytes=5)
    assert options.memory_limit_bytes == 5
    assert pickle.loads(pickle.dumps(options)).memory_limit_bytes == 5
    with pytest.raises(OptionError, match="total_memory_bytes is -1"):
        options.memory_limit_bytes = -1


def test_constants_beyond_the_limit_are_refused_at_load() -> None:
    """Before they are made; the message has the limit, the largest constants and what to do."""
    with pytest.raises(MemoryLimitError, match=r"more than the 3\.9 KiB that the session may") as caught:
        InferenceSession(weighted(), limited(3999), providers=CPU)
    assert "constant 'w' has 3.9 KiB" in str(caught.value)
    assert "raise SessionOptions.memory_limit_bytes" in caught.value.fix
    assert caught.value.location.value == "w"
    assert caught.value.largest == (("w", 4000),)
    assert pickle.loads(pickle.dumps(caught.value)).largest == (("w", 4000),)


def test_a_run_beyond_the_limit_is_refused_and_the_session_goes_on() -> None:
    """A run's memory counts in addition to the constants; a smaller run still works."""
    session = InferenceSession(weighted(), limited(4064 + 8000), providers=CPU)  # 64 bytes for the alignment
    with pytest.raises(MemoryLimitError, match="12064 are allowed") as caught:
        session.run(None, {"x": np.ones((3, 1000), np.float32)})
    assert caught.value.location.op_type == "Add"
    assert caught.value.largest[0] == ("Add 'y'", 12_000)
    assert ("a constant", 4064) in caught.value.largest
    (result,) = session.run(None, {"x": np.ones((1, 1000), np.float32)})
    np.testing.assert_array_equal(result[0], np.arange(1000) + 1)
    assert session.memory_report().limit == 12_064


def test_weights_of_a_file_are_counted_while_a_plan_reads_them(tmp_path: Path) -> None:
    """A plan that adds the constant has it in memory; trim takes nothing that is in use."""
    path = tmp_path / "model.onnx"
    path.write_bytes(weighted())
    session = InferenceSession(path, providers=CPU)
    session.trim()
    assert session.memory_report().weights == 4000
    session.run(None, {"x": np.ones((1, 1000), np.float32)})


def test_names_of_values_cannot_steer_a_terminal() -> None:
    """Control characters and line ends in them are escapes."""
    assert str(MemoryReport(largest=(("a\n\x1b[2J", 1024),))).endswith(r"  a\n\x1b[2J")
