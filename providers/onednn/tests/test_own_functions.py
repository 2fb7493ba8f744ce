"""Tanh and Erf in models, whoever computes them: closed forms, chains, layouts, threads, and what is not a number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import ort_py as ort
from ort_py_kit.tolerances import assert_close
from ort_py_onednn.binding.constants import Eltwise
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.vector_functions import has_code
from providers.onednn.tests.checking import watched
from providers.onednn.tests.models import PROVIDER, model, node, open_session

Array = np.ndarray[Any, Any]

EXACT: Mapping[str, Any] = {"Tanh": np.tanh, "Erf": np.vectorize(math.erf, "d")}
NAMES = list(EXACT)


def _exact(name: str, x: Array) -> Array:
    return np.asarray(EXACT[name](x.astype(np.float64)), np.float32)


def _run(nodes: Any, x: Array, constants: Mapping[str, Any]) -> Array:
    """Run with the provider, which gets groups of any size; what it has nothing for here is NumPy's."""
    providers: list[Any] = [(PROVIDER, {"claim_small": True}), "CPUExecutionProvider"]
    with watched(), ort.InferenceSession(model(nodes, {"x": x}, constants), providers=providers) as session:
        return np.asarray(session.run(None, {"x": x})[0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(1,), (7, 9), (3, 130, 131)], ids=str)
def test_alone(name: str, shape: tuple[int, ...]) -> None:
    """Few numbers and many, of which threads take parts."""
    x = (np.random.default_rng(3).standard_normal(shape) * 2).astype(np.float32)
    found = _run([node(name, "x", "y")], x, {})
    assert_close(found, _exact(name, x))


@pytest.mark.parametrize("name", NAMES)
def test_between_products_and_sums(name: str) -> None:
    """A product with a bias in front, a residual and another product behind."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((5, 24)).astype(np.float32)
    shapes = {"w": (24, 40), "b": (40,), "r": (5, 40), "v": (40, 8)}
    constants = {key: rng.standard_normal(shape).astype(np.float32) / 4 for key, shape in shapes.items()}
    nodes = [
        node("MatMul", "x w", "m"),
        node("Add", "m b", "a"),
        node(name, "a", "t"),
        node("Add", "t r", "s"),
        node("MatMul", "s v", "y"),
    ]
    wide = {key: array.astype(np.float64) for key, array in constants.items()}
    inner = EXACT[name](x.astype(np.float64) @ wide["w"] + wide["b"]) + wide["r"]
    assert_close(_run(nodes, x, constants), (inner @ wide["v"]).astype(np.float32))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("channels", [3, 16])
def test_pictures_in_blocks(name: str, channels: int) -> None:
    """Between convolutions, whose channels lie in blocks, with zeroes where there are too few."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((1, 4, 9, 11)).astype(np.float32)
    w = (rng.standard_normal((channels, 4, 3, 3)) / 4).astype(np.float32)
    v = (rng.standard_normal((8, channels, 1, 1)) / 4).astype(np.float32)
    nodes = [node("Conv", "x w", "c"), node(name, "c", "t"), node("Conv", "t v", "y")]
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), axis=(2, 3))
    inner = EXACT[name](np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64)))
    wanted = np.einsum("nchw,oc->nohw", inner, v[:, :, 0, 0].astype(np.float64))
    assert_close(_run(nodes, x, {"w": w, "v": v}), wanted.astype(np.float32))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number(name: str, value: float) -> None:
    """NaN stays, infinities have the limits, and neighbours do not notice."""
    x = np.linspace(-3, 3, 20_003, dtype=np.float32)
    x[[17, 20_002]] = value
    with ort.InferenceSession(model([node(name, "x", "y")], {"x": x})) as session:
        assert_close(session.run(None, {"x": x})[0], _exact(name, x))


def test_erf_is_left_to_others_without_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ort_py_onednn.graph.support.elementwise.has_code", lambda *_: False)
    x = np.linspace(-3, 3, 40_000, dtype=np.float32)
    with open_session(model([node("Erf", "x", "y")], {"x": x})) as session:
        (placed,) = session.placement.nodes
        assert placed.provider != PROVIDER
        assert any("oneDNN has no Erf" in why for _, why in placed.refusals)
        assert_close(session.run(None, {"x": x})[0], _exact("Erf", x))


def test_code_of_our_own_is_used_where_there_is_some() -> None:
    """Erf in a session that ort-py makes by default."""
    x = np.linspace(-3, 3, 40_000, dtype=np.float32)
    with ort.InferenceSession(model([node("Erf", "x", "y")], {"x": x}), providers=["CPUExecutionProvider"]) as session:
        (placed,) = session.placement.nodes
        assert (placed.provider == PROVIDER) == has_code(engine().library, Eltwise.ERF)
