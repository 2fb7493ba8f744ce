"""The OCR example reads its sample picture, and reads it the same on both runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from examples.ocr.__main__ import main
from examples.ocr.drawing import draw_reading
from examples.ocr.picture import SAMPLE_LINES, render_sample
from examples.ocr.pipeline import Reader, fetch_models
from examples.ocr.runtime import open_with_ort_py
from tests.support.model_comparison import open_peer

if TYPE_CHECKING:
    from examples.ocr.runtime import Session

pytestmark = pytest.mark.models


def _open_with_onnxruntime(path: Path) -> Session:
    session: Session = open_peer(path)  # type: ignore[assignment]  # it has the metadata too
    return session


def test_every_line_of_the_sample_is_read() -> None:
    """Small and large, light on dark, slanted and upside-down lines, from top to bottom."""
    reading = Reader(fetch_models(), open_with_ort_py).read(render_sample())
    assert tuple(line.text for line in reading.lines) == SAMPLE_LINES


def test_both_runtimes_read_the_same() -> None:
    """The same texts in the same boxes with the same certainty as with onnxruntime."""
    picture, models = render_sample(), fetch_models()
    ours = Reader(models, open_with_ort_py).read(picture).lines
    theirs = Reader(models, _open_with_onnxruntime).read(picture).lines
    assert [line.text for line in ours] == [line.text for line in theirs]
    np.testing.assert_allclose([line.score for line in ours], [line.score for line in theirs], atol=1e-3)
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left.region.corners, right.region.corners, atol=1e-3)


def test_the_command_prints_lines_and_runners_and_writes_the_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The README's main job: text, who ran how many nodes, time of each stage, two pictures."""
    assert main(["--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for expected in (*SAMPLE_LINES, "CPUExecutionProvider", "find text", "nodes run by", "result.png"):
        assert expected in printed
    assert {file.name for file in tmp_path.iterdir()} == {"input.png", "result.png"}


def test_a_picture_without_text_gives_no_lines_but_a_picture() -> None:
    """An empty page without results is not an error."""
    from PIL import Image

    empty = Image.new("RGB", (320, 224), "white")
    reading = Reader(fetch_models(), _open_with_onnxruntime).read(empty)
    assert reading.lines == []
    assert draw_reading(empty, reading).size == (640, 224)
