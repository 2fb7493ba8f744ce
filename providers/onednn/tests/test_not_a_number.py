"""Infinities and NaN follow the specification in all kernels.

oneDNN's own results are used where the processor's flags show that they lost nothing; other runs are declined. Each
operator is tried with NaN and infinities in every input, in processes that are held to older instructions too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

from providers.onednn.tests.hazard_cases import Case, all_cases, differences, idle_declines
from providers.onednn.tests.models import model, node, open_session

NAN, INF = float(np.nan), float(np.inf)
LOWEST = float(np.finfo(np.float32).min)
ROOT = Path(__file__).parents[3]

_CASES = {f"{number} {case.name}": case for number, case in enumerate(all_cases())}


@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
def test_nothing_is_lost(case: Case) -> None:
    """NaN and infinities are where NumPy has them, wherever one stands in an input; ordinary runs are not declined, for
    each would cost a second run."""
    assert not list(differences(case, 1))
    assert not idle_declines(case, 1)


@pytest.mark.parametrize(
    "isa",
    ["", "AVX2", *(pytest.param(isa, marks=pytest.mark.nightly) for isa in ("AVX512_CORE", "SSE41"))],
)
def test_nor_by_other_instructions(isa: str) -> None:
    """The same in a process that is held to them, on two threads."""
    command = [sys.executable, "-m", "providers.onednn.tests.hazard_cases", "2"]
    environment = os.environ | ({"ONEDNN_MAX_CPU_ISA": isa} if isa else {})
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


_X = np.array([[NAN, INF, -INF, 0.5]], np.float32)
WANTED: Mapping[str, tuple[NodeProto, np.ndarray[Any, Any], Mapping[str, Any], list[float]]] = {
    "Clip": (node("Clip", "x low high", "y"), _X, {"low": -1, "high": 6}, [NAN, 6, -1, 0.5]),
    "Exp": (node("Exp", "x", "y"), _X[:, :3], {}, [NAN, INF, 0]),
    "Gelu": (node("Gelu", "x", "y"), _X[:, 1:2], {}, [INF]),
    "HardSigmoid": (node("HardSigmoid", "x", "y"), _X[:, :3], {}, [NAN, 1, 0]),
    "Max": (node("Max", "x z", "y"), _X[:, :2], {"z": [[1, NAN]]}, [NAN, NAN]),
    "MaxPool": (
        node("MaxPool", "x", "y", kernel_shape=[2]),
        np.array([[[NAN, 2, -INF, -INF]]], np.float32),
        {},
        [NAN, 2, -INF],
    ),
    "MaxPool of the lowest": (
        node("MaxPool", "x", "y", kernel_shape=[2]),
        np.array([[[LOWEST, LOWEST, -INF, INF]]], np.float32),
        {},
        [LOWEST, LOWEST, INF],
    ),
    "Relu": (node("Relu", "x", "y"), _X, {}, [NAN, INF, 0, 0.5]),
    "Softmax": (node("Softmax", "x", "y"), np.array([[INF, 0, 0]], np.float32), {}, [NAN, NAN, NAN]),
}


@pytest.mark.parametrize("name", sorted(WANTED))
def test_results_are_the_specification_s(name: str) -> None:
    """Written out for the operators whose code in oneDNN gives something else."""
    made, x, constants, wanted = WANTED[name]
    arrays = {key: np.asarray(array, np.float32) for key, array in constants.items()}
    with open_session(model([made], {"x": x}, arrays)) as session:
        (found,) = session.run(None, {"x": x})
        assert not session.fallback_report
    np.testing.assert_array_equal(found.reshape(-1), np.array(wanted, np.float32))


def test_fast_math_does_not_look() -> None:
    """The bound takes the place of NaN, and nothing is declined."""
    x = np.array([[NAN, 1.0, -1.0, 2.0] * 8], np.float32)
    data = model([node("Relu", "x", "y")], {"x": x})
    with open_session(data, fast_math=True) as session:
        (found,) = session.run(None, {"x": x})
        assert "declined" not in session.plan
    np.testing.assert_array_equal(found, np.where(x > 0, x, 0))


def test_nan_in_a_weight_is_kept() -> None:
    """Though the convolution's own primitive clamps behind it."""
    x, w = np.ones((1, 3, 8, 8), np.float32), np.ones((8, 3, 3, 3), np.float32)
    w[2, 1, 1, 1] = NAN
    data = model([node("Conv", "x w", "c"), node("Relu", "c", "y")], {"x": x}, {"w": w})
    with open_session(data) as session:
        (found,) = session.run(None, {"x": x})
    assert np.isnan(found[:, 2]).all()
    assert np.isfinite(np.delete(found, 2, axis=1)).all()


def test_shapes_that_onednn_lacks_are_declined() -> None:
    """A product of no columns is zeroes: the NumPy kernels answer, and the next run comes here again."""
    w = np.ones((4, 0), np.float32)
    data = model([node("MatMul", "x z", "y")], {"x": w, "z": w.T}, dynamic=True)
    ordinary = np.ones((4, 3), np.float32)
    with open_session(data) as session:
        np.testing.assert_array_equal(session.run(None, {"x": w, "z": w.T})[0], np.zeros((4, 4), np.float32))
        np.testing.assert_array_equal(session.run(None, {"x": ordinary, "z": ordinary.T})[0], np.full((4, 4), 3.0))
        assert not session.fallback_report
        assert "declined 1 run(s)" in session.plan
