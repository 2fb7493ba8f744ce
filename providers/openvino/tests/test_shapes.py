"""Sizes that a caller promises with `reshape_input`: read, compiled for, and what happens with others."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py.errors import InvalidArgument, OptionError, PluginError
from ort_py_openvino.shapes import bounds_of
from providers.openvino.tests.models import NAME, opened, runners

NET = "g (float[n, m] x) => (float[n, m] y) { a = Sin(x) y = Mul(a, a) }"


def wanted(x: np.ndarray) -> np.ndarray:
    squares: np.ndarray = np.sin(x) ** 2
    return squares


def test_how_sizes_are_written() -> None:
    """onnxruntime's users write numbers, ranges, and open sizes."""
    assert bounds_of("ids[1,1..128], picture [1, 3, ?, -1],scalar[]") == {
        "ids": ((1, 1), (1, 128)),
        "picture": ((1, 1), (3, 3), (0, None), (0, None)),
        "scalar": (),
    }
    assert bounds_of("") == {}


@pytest.mark.parametrize("text", ["x", "x[", "x[1..]", "x[5..2]", "x[a]", "x[1],,y[2]", "x[1]y[2]"])
def test_what_is_not_written_like_that(text: str) -> None:
    with pytest.raises(OptionError, match=r"reshape_input=.* cannot be read.*\n.*ids\[1,1\.\.128\]"):
        bounds_of(text)


@pytest.mark.parametrize("sizes", ["x[4,64]", "x[1..8,64]", "x[?,1..64]"])
def test_promised_sizes_are_compiled_for(sizes: str) -> None:
    """Fixed ones and bounds give what open ones give."""
    session = opened(NET, reshape_input=sizes)
    assert set(runners(session).values()) == {NAME}
    x = np.random.default_rng(1).standard_normal((4, 64), np.float32)
    (result,) = session.run(None, {"x": x})
    np.testing.assert_allclose(result, wanted(x), rtol=1e-5, atol=1e-6)
    assert not session.fallback_report


@pytest.mark.parametrize("sizes", ["x[4,64]", "x[1..8,64]"])
def test_other_sizes_are_refused(sizes: str) -> None:
    """They break a promise of the caller: named, and the session goes on with sizes that keep it."""
    session = opened(NET, reshape_input=sizes)
    with pytest.raises(InvalidArgument, match=r"'x' has shape \[9, 64\]; reshape_input promised \[(4|1\.\.8),64\]"):
        session.run(None, {"x": np.ones((9, 64), np.float32)})
    x = np.ones((4, 64), np.float32)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], wanted(x), rtol=1e-5, atol=1e-6)
    assert set(runners(session).values()) == {NAME}


def test_an_input_that_the_model_does_not_have() -> None:
    """The error names it, together with the existing inputs."""
    words = r"(?s)reshape_input names 'z', which is not an input of the model.*name one of its inputs: x"
    with pytest.raises(PluginError, match=words):
        opened(NET, reshape_input="z[4]")
