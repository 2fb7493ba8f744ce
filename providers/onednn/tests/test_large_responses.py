"""Local response normalisation of numbers whose cubes do not fit into float32."""

from __future__ import annotations

import numpy as np
import pytest

from providers.onednn.tests.models import model, node, open_session

SIZE, ALPHA = 3, 0.5


@pytest.mark.parametrize("channels", [5, 8, 16])
@pytest.mark.parametrize(("largest", "bias"), [(1.0, 1.0), (1e8, 1.0), (1e15, 2.0), (1e-9, 1e-16)])
def test_any_magnitude(channels: int, largest: float, bias: float) -> None:
    """The results are those of the formula in ONNX's specification, computed in float64."""
    x = np.random.default_rng(channels).uniform(0.5, 1, (2, channels, 3, 4)).astype(np.float32) * np.float32(largest)
    made = node("LRN", "x", "y", size=SIZE, alpha=ALPHA, beta=0.75, bias=bias)
    with open_session(model([made], {"x": x}, {})) as session:
        (found,) = session.run(None, {"x": x})
        assert not session.fallback_report
    wide = x.astype(np.float64)
    squares = np.pad(wide**2, [(0, 0), (SIZE // 2, SIZE // 2), (0, 0), (0, 0)])
    sums = sum(squares[:, start : start + channels] for start in range(SIZE))
    np.testing.assert_allclose(found, wide / (bias + ALPHA / SIZE * sums) ** 0.75, rtol=1e-5)
