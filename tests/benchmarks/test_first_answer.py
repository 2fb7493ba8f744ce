"""The benchmark of first answers: what it measures, and its picture."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx.parser
import pytest

from benchmarks.first_answer import RUNTIMES, STAGES, Answer, answered, measured
from benchmarks.first_answer_plot import drawn

MODEL = '<ir_version: 10, opset_import: ["" : 21]> g (float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }'


def test_each_runtime_answers_in_processes_of_its_own(tmp_path: Path) -> None:
    """Stages add up to the whole, and none is negative."""
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx.parser.parse_model(MODEL).SerializeToString())
    found = measured(model, {"x": np.ones((2, 3), np.float32)}, 1, 1)
    assert tuple(found) == RUNTIMES
    for one in found.values():
        assert len(one.stages) == len(STAGES)
        assert min(one.stages) >= 0
        assert one.seconds == pytest.approx(sum(one.stages))


def test_a_process_that_fails_is_an_error(tmp_path: Path) -> None:
    """Its message names the runtime and says what the process wrote."""
    model = tmp_path / "model.onnx"
    model.write_bytes(b"not a model")
    with pytest.raises(RuntimeError, match=r"(?s)onnxruntime on model\.onnx: .*(INVALID_PROTOBUF|InvalidProtobuf)"):
        answered("onnxruntime", model, tmp_path, [], 1, "off")


def test_the_picture_shows_each_stage_and_time() -> None:
    """It is XML, with a bar of five parts for each runtime of a model."""
    one = Answer(1.5, (0.1, 0.2, 0.3, 0.4, 0.5), 1000)
    picture = ElementTree.fromstring(drawn({"a <model>": dict.fromkeys(RUNTIMES, one)}))
    titles = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == [f"{stage}: {100 * (place + 1)} ms" for place, stage in enumerate(STAGES)] * len(RUNTIMES)
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "a <model>" in texts
    assert texts.count("1500 ms") == len(RUNTIMES)
