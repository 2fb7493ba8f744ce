"""BiasGelu and FastGelu in generated code, run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument
from ort_py_array.contrib.schemas import schemas
from ort_py_cuda.kernels.bias_gelu import KERNELS
from providers.cuda.tests.drawing import rng
from providers.cuda.tests.emulation import host
from providers.cuda.tests.kernels.generated import check_with_library, run

SCHEMAS = tuple(schemas())
MS: dict[str, Any] = {"domain": "com.microsoft", "opset": 1, "schemas": SCHEMAS}


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> host.HostDriver:
    """Kernels run on the host."""
    return host.install(monkeypatch)


@pytest.mark.parametrize("kind", ["float32", "float16", "float64"])
@pytest.mark.parametrize("op_type", ["BiasGelu", "FastGelu"])
@pytest.mark.parametrize("width", [7, 64])
def test_with_a_bias(op_type: str, kind: str, width: int, device: host.HostDriver) -> None:
    x, b = rng().standard_normal((3, 5, width)).astype(kind), rng().standard_normal(width).astype(kind)
    check_with_library(KERNELS, op_type, [x, b], **MS)
    assert len(device.launched) == 1


def test_without_a_bias() -> None:
    check_with_library(KERNELS, "FastGelu", [rng().standard_normal((3, 8)).astype(np.float32)], **MS)


def test_a_bias_that_does_not_fit() -> None:
    with pytest.raises(InvalidArgument, match="does not fit an input of shape"):
        run(KERNELS, "BiasGelu", [np.zeros((2, 3), np.float32), np.zeros(4, np.float32)], **MS)
