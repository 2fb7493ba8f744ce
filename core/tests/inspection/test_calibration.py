"""Measuring providers, and what sessions make of the figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ort_py
from core.tests.slow_provider import SLOW, slow_factory
from core.tests.small_models import model_bytes
from ort_py.contracts import ProviderFactory
from ort_py_kit.fake_device import FakeFactory

CPU = "CPUExecutionProvider"
FAKE = "FakeExecutionProvider"
QUICK = 0.02

Register = Callable[[ProviderFactory], None]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("ORT_PY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_provider_on_the_host_is_measured_and_remembered(folder: Path) -> None:
    """Calls, arithmetic and bytes; nothing is copied there. A session reads them again."""
    (found,) = ort_py.calibrate([CPU], seconds=QUICK, threads=1)
    assert found.remembered
    assert found.rates is not None
    assert found.rates.measured
    assert found.rates.launch_us > 0
    assert found.rates.copy_us == 0
    assert len(list(folder.glob("*.rates"))) == 1


def test_a_device_is_measured_with_its_copies(register: Register) -> None:
    """The fake device copies as others do."""
    register(FakeFactory())
    (found,) = ort_py.calibrate([FAKE], seconds=QUICK, threads=1)
    assert found.rates is not None
    assert found.rates.copy_us > 0
    assert found.rates.copy_bytes_per_us > 0


def test_sessions_place_with_the_figures(register: Register) -> None:
    """They read what was measured for as many threads; the notes of partitioning show the estimates."""
    register(FakeFactory())
    ort_py.calibrate([FAKE, CPU], seconds=QUICK, threads=1)
    options = ort_py.SessionOptions()
    options.intra_op_num_threads = 1
    model = model_bytes("g (float[3] x) => (float[3] y) { y = Relu(x) }")
    with ort_py.InferenceSession(model, options) as session:
        assert dict(session.engine.providers.participants.calibration.items()).keys() == {FAKE, CPU}
        notes = next(stage.notes for stage in session.load_report.stages if stage.stage == "partition")
        assert any(note.startswith("placement ") for note in notes)


def test_a_provider_without_a_product_is_not_measured(register: Register) -> None:
    """The answer says so; the others are measured all the same."""
    register(slow_factory())
    slow, cpu = ort_py.calibrate([SLOW, CPU], seconds=QUICK)
    assert (slow.rates, slow.remark) == (None, "it cannot run a single MatMul of float32")
    assert cpu.rates is not None
    assert slow.to_json() == {"provider": SLOW, "rates": None, "remembered": False, "remark": slow.remark}
    assert slow.figures() == ("-",) * 6


def test_a_provider_that_is_not_there_is_a_row() -> None:
    found, _ = ort_py.calibrate(["CPUExecutionProvder", CPU], seconds=QUICK)
    assert found.rates is None
    assert "ProviderNotFoundError" in found.remark


def test_nothing_is_written_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures are there, and not remembered."""
    monkeypatch.setenv("ORT_PY_CACHE", "off")
    (found,) = ort_py.calibrate([CPU], seconds=QUICK)
    assert found.rates is not None
    assert (found.remembered, found.remark) == (False, "the cache is off, or cannot be written")


def test_no_time_to_measure_is_refused() -> None:
    with pytest.raises(ort_py.InvalidArgument, match="for 0 seconds"):
        ort_py.calibrate(seconds=0)
