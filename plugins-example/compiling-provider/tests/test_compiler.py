"""Regions become functions that compute the same, whatever the model calls its values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import ort_py as ort
from ort_py.contracts import RegionView
from ort_py_compiling import compiler
from ort_py_compiling.plugin import NAME
from ort_py_kit.graphs import model_from_text, reference_run

TANH = """g (float[N, 4] x, float[4] b) => (float[N, 4] y, float[N, 4] r) <float half = {0.5}> {
    a = Add(x, b) m = Mul(a, half) t = Tanh(m) s = Sub(t, a) y = Exp(s) r = Relu(t)
}"""


def _session(text: str, **options: Any) -> ort.InferenceSession:
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.pin_cpu = True
    return ort.InferenceSession(model_from_text(text).SerializeToString(), settings, providers=[(NAME, options)])


def _feeds(rows: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((rows, 4), np.float32), "b": rng.standard_normal(4, np.float32)}


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_a_chain_is_one_region(rows: int) -> None:
    """With all its outputs, for every number of rows."""
    with _session(TANH) as session:
        assert session.placement.counts() == {NAME: 6}
        assert len({node.region for node in session.placement}) == 1
        results = session.run(None, _feeds(rows))
    for result, expected in zip(results, reference_run(model_from_text(TANH), _feeds(rows)), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_feeds_and_earlier_results_are_left_alone() -> None:
    """Only temporaries of the same run are written over."""
    feeds = _feeds(3)
    before = {name: array.copy() for name, array in feeds.items()}
    with _session(TANH) as session:
        first = session.run(None, feeds)
        kept = [array.copy() for array in first]
        session.run(None, _feeds(3, seed=1))
    assert all(np.array_equal(array, before[name]) for name, array in feeds.items())
    assert all(np.array_equal(array, copy) for array, copy in zip(first, kept, strict=True))


def test_temporaries_are_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes are known to be equal and the temporaries are not read later; names of the model are not in the source."""
    sources: list[str] = []
    source_of = compiler.source_of

    def recorded(region: RegionView) -> str:
        sources.append(source_of(region))
        return sources[-1]

    monkeypatch.setattr(compiler, "source_of", recorded)
    _session(TANH.replace("half", "import_os")).close()
    (source,) = sources
    assert "out=t0" not in source.splitlines()[2]  # `a` is read again by Sub
    assert "out=t1" in source.splitlines()[3]
    words = set(re.findall(r"[A-Za-z_]\w*", source))
    assert {word for word in words if not re.fullmatch(r"[ictf]\d+", word)} == {
        "def",
        "region",
        "return",
        "array",
        "out",
    }


def test_scalars() -> None:
    with _session("g (float x) => (float y) { a = Neg(x) y = Sqrt(a) }") as session:
        (y,) = session.run(None, {"x": np.array(-9, np.float32)})
    assert isinstance(y, np.ndarray)
    assert (y.shape, float(y)) == ((), 3.0)


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("g (float[2] x) => (float[2] y) { a = Neg(x) b = Sin(a) y = Abs(b) }", {}, "Sin is no operator"),
        ("g (int64[2] x) => (int64[2] y) { a = Neg(x) y = Abs(a) }", {}, r"tensor\(int64\) is not compiled"),
        ("g (float[2] x) => (float[2] y) { a = Neg(x) y = Abs(a) }", {"min_nodes": 3}, "a chain of 2"),
    ],
)
def test_what_is_left_to_others(text: str, options: dict[str, Any], reason: str) -> None:
    """With the reason in the placement."""
    with _session(text, **options) as session:
        refusals = [str(refusal) for node in session.placement for refusal in node.refusals]
    assert any(re.search(reason, refusal) for refusal in refusals), refusals
