"""The networks of `benchmarks.gpu`: seeded by name, right as ONNX, equal to PyTorch's modules where it is installed."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import ort_py as ort
from benchmarks.gpu_graph import seeded
from benchmarks.gpu_models import MODELS, GpuModel, made_of, model_of
from benchmarks.gpu_work import Work, roofline, work_of
from benchmarks.providers import relative_error

FLOAT32, FLOAT16 = 1e-5, 5e-3
"""Relative differences that rounding in another order makes."""

every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
both_types = pytest.mark.parametrize("half", [False, True], ids=["float32", "float16"])


def _onnxruntime(path: Path, feeds: dict[str, Any]) -> list[Any]:
    outputs: list[Any] = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)
    return outputs


@every_model
@both_types
def test_ours_agrees_with_onnxruntime(model: GpuModel, half: bool, tmp_path: Path) -> None:
    """Outputs are finite, of the declared shapes, and equal but for rounding."""
    made = model.make(3, half, small=True, folder=tmp_path)
    with ort.InferenceSession(str(made.path), providers=["CPUExecutionProvider"]) as session:
        ours = session.run(None, made.feeds)
    assert [one.shape for one in ours] == [shape for _, _, shape in made.outputs]
    assert all(np.isfinite(one).all() for one in ours)
    assert relative_error(ours, _onnxruntime(made.path, made.feeds)) < (FLOAT16 if half else FLOAT32)


@pytest.mark.skipif(not find_spec("torch"), reason="PyTorch is not installed: it is no requirement of the tests")
@every_model
@both_types
def test_modules_of_pytorch_are_the_same_networks(model: GpuModel, half: bool, tmp_path: Path) -> None:
    """With the same weights, by name, in the same order of outputs."""
    import torch

    from benchmarks.gpu_torch import module_of

    made = model.make(2, half, small=True, folder=tmp_path)
    size, found_half = made_of(made.path)
    assert (size, found_half) == (model.small, half)
    with torch.inference_mode():
        outputs = module_of(size, half, "cpu")(**{name: torch.from_numpy(one) for name, one in made.feeds.items()})
    peer = _onnxruntime(made.path, made.feeds)
    assert relative_error([one.numpy() for one in outputs], peer) < (FLOAT16 if half else FLOAT32)


def test_weights_are_shared_by_batches(tmp_path: Path) -> None:
    """One file of weights for each type; the item of a batch of one is that of a larger batch."""
    model = model_of("unet")
    one, three = (model.make(batch, half=False, small=True, folder=tmp_path) for batch in (1, 3))
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".onnx", ".onnx", ".weights"]
    feeds = {name: array[:1] for name, array in three.feeds.items()}
    assert relative_error(_onnxruntime(one.path, feeds), [_onnxruntime(three.path, three.feeds)[0][:1]]) < FLOAT32


def test_weights_follow_from_their_names() -> None:
    """The same ones every time, others for another name; scales are about one, variances positive."""
    assert np.array_equal(seeded("a.weight", (3, 4)), seeded("a.weight", (3, 4)))
    assert not np.array_equal(seeded("a.weight", (3, 4)), seeded("b.weight", (3, 4)))
    assert abs(seeded("norm.weight", (100,)).mean() - 1) < 0.1
    assert seeded("norm.running_var", (100,)).min() > 0


def test_an_unknown_model_is_told() -> None:
    with pytest.raises(KeyError, match="no model 'resnet'; there are resnet50, bert-large"):
        model_of("resnet")


def test_work_of_known_networks(tmp_path: Path) -> None:
    """ResNet-50 takes 4.1 billion multiplications and additions and 25.6 million weights."""
    made = model_of("resnet50").make(1, half=False, folder=tmp_path)
    work = work_of(made.path)
    assert work.operations == pytest.approx(2 * 4.09e9, rel=0.01)
    assert work.transferred == pytest.approx(4 * 25.6e6, rel=0.02)


def test_work_is_counted_by_hand() -> None:
    """Products by their shapes, transposed ones too; a depthwise and a transposed convolution by what they sum."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2, 8, 6, 6] x, float[8, 1, 3, 3] d, float[8, 4, 2, 2] t, float[5, 7] a, float[5, 9] b) =>
      (float[2, 8, 4, 4] y, float[2, 4, 12, 12] z, float[7, 9] w)
    { y = Conv <group = 8> (x, d) z = ConvTranspose <strides = [2, 2]> (x, t) w = Gemm <transA = 1> (a, b) }"""
    products = 2 * (2 * 8 * 16 * 9 + 2 * 8 * 36 * 16 + 7 * 9 * 5)
    numbers = sum(math.prod(shape) for shape in ((2, 8, 6, 6), (8, 1, 3, 3), (8, 4, 2, 2), (5, 7), (5, 9)))
    numbers += sum(math.prod(shape) for shape in ((2, 8, 4, 4), (2, 4, 12, 12), (7, 9)))
    assert work_of(onnx.parser.parse_model(text)) == Work(products, 4 * numbers)


def test_unknown_shapes_are_told() -> None:
    """A free dimension of an end cannot be counted, nor one that a product computes with."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[N, 4] x, float[4, 4] w) => (float[N, 4] y) { y = MatMul (x, w) }"""
    with pytest.raises(ValueError, match="the shape of 'x' at an end of the graph is not known"):
        work_of(onnx.parser.parse_model(text))
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[4, 4] x, int64[2] s) => (float[4, 4] y) { r = Reshape (x, s) y = MatMul (r, x) }"""
    with pytest.raises(ValueError, match="the shape of 'r' at MatMul '' is not known"):
        work_of(onnx.parser.parse_model(text))


def test_the_roofline_is_the_slower_of_both() -> None:
    """Operations over their rate, or bytes over theirs."""
    assert roofline(Work(10, 1), 2, 1) == 5
    assert roofline(Work(1, 10), 2, 1) == 10
