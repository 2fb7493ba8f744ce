"""BatchNormalization and InstanceNormalization through cuDNN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_array import kernel_defs
from ort_py_cuda.kernels.normalization import KERNELS
from ort_py_kit.kernel_runner import reference_outputs, run_kernel
from providers.cuda.tests.cudnn.on_host import Host, close, cudnn_on_host

LAST = "ort_py.channels_last"


def _batch(shape: tuple[int, ...], dtype: Any = np.float32) -> list[Any]:
    rng = np.random.default_rng(31)
    channels = shape[1]
    small = [rng.standard_normal(channels) for _ in range(3)] + [rng.random(channels) + 0.5]
    return [rng.standard_normal(shape).astype(dtype), *(one.astype(dtype) for one in small)]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    """cuDNN on the host."""
    return cudnn_on_host(monkeypatch)


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5), (1, 3, 2, 4, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_batch_normalization(dtype: Any, shape: tuple[int, ...], host: Host) -> None:
    """In both layouts, of one to three spatial axes; parameters go to cuDNN in float32."""
    inputs = _batch(shape, dtype)
    (expected,) = reference_outputs("BatchNormalization", [one.astype(np.float32) for one in inputs], epsilon=0.01)
    (y,) = host.run(KERNELS, "BatchNormalization", inputs, epsilon=0.01)
    close(y, expected, dtype)
    turned = [np.moveaxis(inputs[0], 1, -1), *inputs[1:]]
    last = host.run(KERNELS, "BatchNormalization", turned, domain=LAST, epsilon=0.01)
    close(np.moveaxis(last, -1, 1), expected, dtype)
    assert host.executed == ["norm", "norm"]


def test_training_is_the_librarys(host: Host) -> None:
    """Statistics of the batch, and the running ones."""
    inputs = _batch((2, 3, 4, 5))
    found = host.run(KERNELS, "BatchNormalization", inputs, outputs=3, training_mode=1)
    expected = run_kernel(kernel_defs(), "BatchNormalization", inputs, outputs=3, training_mode=1)
    for one, other in zip(found, expected, strict=True):
        close(one, other, "float32")
    assert host.executed == []


@pytest.mark.parametrize(("opset", "outputs"), [(6, 1), (7, 3)])
def test_training_of_older_versions_is_the_librarys(opset: int, outputs: int, host: Host) -> None:
    """Version 6 trains by default, version 7 if outputs other than the result are requested."""
    inputs = _batch((2, 3, 4, 5))
    found = host.run(KERNELS, "BatchNormalization", inputs, outputs=outputs, opset=opset)
    expected = run_kernel(kernel_defs(), "BatchNormalization", inputs, outputs=outputs, opset=opset)
    for one, other in zip(found, expected, strict=False):
        close(one, other, "float32")
    assert host.executed == []


def test_rank_two_and_refusals_are_the_librarys(host: Host) -> None:
    """Pictures have space; and what a version refuses is computed all the same."""
    for shape in ((4, 3), (2, 3, 4, 5)):
        inputs = _batch(shape)
        host.library.statuses["cudnnBatchNormalizationForwardInference"] = 3000
        (expected,) = reference_outputs("BatchNormalization", inputs)
        (y,) = host.run(KERNELS, "BatchNormalization", inputs)
        close(y, expected, "float32")
    assert host.executed == []


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5), (1, 3, 2, 4, 5)])
@pytest.mark.parametrize("refused", [False, True])
def test_instance_normalization(refused: bool, shape: tuple[int, ...], host: Host) -> None:
    """One graph with its epsilon; without a plan it is the array library's."""
    x, scale, bias, *_ = _batch(shape)
    host.frontend.refused = {"instancenorm"} if refused else set()
    (expected,) = reference_outputs("InstanceNormalization", [x, scale, bias], epsilon=0.01)
    call, arrays = host.kernel(KERNELS, "InstanceNormalization", [x, scale, bias], epsilon=0.01)
    for _ in range(2):
        close(call(*arrays), expected, "float32")
    assert host.executed == ([] if refused else [0, 0])
    assert len(host.frontend.graphs) == 1
