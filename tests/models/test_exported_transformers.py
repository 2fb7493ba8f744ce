"""Transformers as PyTorch's two exporters write them: the same results at every level, no more steps than need be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest

import ort_py as ort
from ort_py_kit.tolerances import assert_close
from tests.support.exported_models import EXPORTED, feeds_of

LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL")

every_export = pytest.mark.parametrize("path", EXPORTED, ids=lambda path: path.stem)


def _session(path: Path, level: str, *, plain: bool = False) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.pin_cpu = plain
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _peer(path: Path, written: Path | None = None) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if written is not None:
        options.optimized_model_filepath = str(written)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def test_the_exports_are_there() -> None:
    """Ten models, each by the exporter over TorchScript and by the one over torch.export for two opsets."""
    names = {tuple(path.name.split(".")[:2]) for path in EXPORTED}
    models = {"bert", "bert_eager", "gpt2", "gpt2_past", "llama", "llama_past", "vit", "whisper_encoder"}
    models |= {"whisper_decoder", "t5"}
    assert names == {(model, exporter) for model in models for exporter in ("script", "dynamo18", "dynamo23")}


@every_export
def test_every_level_equals_onnxruntime(path: Path) -> None:
    """All outputs, at each of the four levels, to float32's tolerance; with and without whoever stands in for CPU."""
    feeds = feeds_of(path)
    expected = _peer(path).run(None, feeds)
    for plain in (False, True):
        for level in LEVELS:
            with _session(path, level, plain=plain) as session:
                actual = session.run(None, feeds)
            for output, left, right in zip(session.get_outputs(), actual, expected, strict=True):
                runner = "plain CPU" if plain else "default"
                assert_close(left, right, context=f"{path.stem}, {runner}, {level}, {output.name}")


@every_export
def test_steps_are_no_more_than_onnxruntimes(path: Path, tmp_path: Path) -> None:
    """At ALL no more nodes are left than onnxruntime executes on its own optimised model, and 5 % on top."""
    _peer(path, tmp_path / "theirs.onnx")
    theirs = len(onnx.load(tmp_path / "theirs.onnx", load_external_data=False).graph.node)
    with _session(path, "ORT_ENABLE_ALL") as session:
        report = session.load_report.optimisation
    assert report is not None
    assert report.nodes_after <= theirs * 1.05
