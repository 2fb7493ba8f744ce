"""Packages: what they are made for, how they are kept as bytes, and what is wrong with others."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import coremltools
import numpy as np
import pytest
from coremltools.converters import _converters_entry
from coremltools.converters.mil import Builder
from coremltools.converters.mil.mil import Function, Placeholder, Program, get_new_symbol, types
from coremltools.converters.mil.mil.passes import pass_pipeline

from ort_py.errors import EPFail
from ort_py_coreml.artifact import Border, facts_in, pack, unpack
from ort_py_coreml.lowering import Signature
from ort_py_coreml.package import save
from ort_py_coreml.program import RegionProgram
from ort_py_coreml.toolkit import TARGET
from providers.coreml.tests.mil_interpreter import InterpretedModel

FACTS = {"coremltools": "9"}
KIND = ("float32",)
W = np.random.default_rng(3).normal(0, 1, (3, 600)).astype(np.float32)


def _program(rows: int | str = "rows") -> RegionProgram:
    """A product with constant weights, which are large enough for a file of their own."""
    program = Program()
    size = rows if isinstance(rows, int) else get_new_symbol()
    with Function({"in0": Placeholder((size, 3), dtype=types.fp32)}, opset_version=TARGET) as function:
        found = Builder.matmul(x=function.inputs["in0"], y=W)
        function.set_outputs([Builder.identity(x=found, name="out0")])
        program.add_function("main", function)
    return RegionProgram(program, Signature(((rows, 3),), KIND, KIND, ("in0",), ("out0",)))


def _run(folder: Path, rows: int) -> Any:
    x = np.random.default_rng(4).normal(0, 1, (rows, 3)).astype(np.float32)
    return InterpretedModel(folder).predict({"in0": x})["out0"], x @ W


def test_a_package_computes_what_the_program_computes(tmp_path: Path) -> None:
    border = save(_program(), tmp_path / "a.mlpackage", 64)
    assert border == Border((("rows", 3),), KIND, KIND, 64)
    for rows in (1, 5, 64):
        found, wanted = _run(tmp_path / "a.mlpackage", rows)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_bytes_are_a_package_again(tmp_path: Path) -> None:
    border = save(_program(), tmp_path / "a.mlpackage", 64)
    data = pack(tmp_path / "a.mlpackage", border, FACTS)
    assert facts_in(data) == FACTS
    assert unpack(data, tmp_path / "b.mlpackage") == border
    found, wanted = _run(tmp_path / "b.mlpackage", 7)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_packages_do_not_say_when_they_were_made(tmp_path: Path) -> None:
    """Compiled models are found by the digest of their packages."""
    save(_program(4), tmp_path / "a.mlpackage", 64)
    text = (tmp_path / "a.mlpackage" / "Data" / "com.apple.CoreML" / "model.mlmodel").read_bytes()
    assert b"conversion_date" not in text


@pytest.mark.parametrize("data", [b"", b"no package", bytes(100)], ids=["empty", "text", "zeros"])
def test_other_bytes_are_no_package(data: bytes, tmp_path: Path) -> None:
    assert facts_in(data) is None
    with pytest.raises(EPFail, match="A compiled region is damaged"):
        unpack(data, tmp_path / "a.mlpackage")


def test_a_damaged_package_is_an_error(tmp_path: Path) -> None:
    """The digest shows that a bit of the weights is another one."""
    border = save(_program(), tmp_path / "a.mlpackage", 64)
    data = bytearray(pack(tmp_path / "a.mlpackage", border, FACTS))
    place = bytes(data).index(W.tobytes()[100:140])
    data[place] ^= 1
    with pytest.raises(EPFail, match="A compiled region is damaged"):
        unpack(bytes(data), tmp_path / "b.mlpackage")


def test_what_coremltools_refuses_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **more: Any) -> Any:
        raise ValueError("not this one")

    monkeypatch.setattr(coremltools, "convert", refuse)
    with pytest.raises(EPFail, match="coremltools cannot convert a region") as caught:
        save(_program(), tmp_path / "a.mlpackage", 64)
    assert "ValueError: not this one" in str(caught.value)


def test_progress_bars_and_collections_come_back(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is shown or collected, and programs that use coremltools themselves see theirs afterwards."""
    shown = pass_pipeline.tqdm
    before = gc.get_stats()[2]["collections"]
    save(_program(), tmp_path / "a.mlpackage", 64)
    assert gc.get_stats()[2]["collections"] == before
    assert pass_pipeline.tqdm is shown
    assert _converters_entry.gc is gc
    assert "passes" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        (((1, 3), (1,)), None),
        (((8, 3), (8,)), None),
        (((9, 3), (9,)), "an axis has the size 9, and the model was compiled for 1 to 8"),
        (((0, 3), (0,)), "an axis has the size 0, and the model was compiled for 1 to 8"),
        (((2, 4), (2,)), "an axis has the size 4, and the model was compiled for 3"),
        (((2, 3), (5,)), "the sizes of 'rows' differ: 2 and 5"),
        (((2,), (2,)), "an input has 1 axes, and the model was compiled for 2"),
    ],
)
def test_shapes_that_a_package_takes(shapes: tuple[tuple[int, ...], ...], reason: str | None) -> None:
    assert Border((("rows", 3), ("rows",)), KIND * 2, KIND, 8).refusal(shapes) == reason
