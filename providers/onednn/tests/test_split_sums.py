"""Pointwise convolutions of what is put side by side for them: one a piece, the same sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

from ort_py_kit.tolerances import assert_close
from ort_py_onednn.binding.constants import Element
from ort_py_onednn.binding.instructions import native_elements
from ort_py_onednn.binding.library import open_library
from ort_py_onednn.execution import region
from ort_py_onednn.execution.packed_weights import MadeWeight
from ort_py_onednn.graph import split_sums
from providers.onednn.tests.models import model, node, open_session, run_here, run_plain

Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Weights that were cut into parts."""
    found: list[str] = []

    def seen(*args: Any) -> dict[str, tuple[str, ...]]:
        parts = split_sums.split_sums(*args)
        found.extend(parts)
        return parts

    monkeypatch.setattr(region, "split_sums", seen)
    return found


def _drawn(random: np.random.Generator, **shapes: tuple[int, ...]) -> Arrays:
    return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def _joined(*behind: NodeProto, pieces: str = "a b", axis: int = 1) -> list[NodeProto]:
    """Pieces that are computed, put side by side as `j`, and what reads that."""
    names = [f"{name}r" for name in pieces.split()]
    made = [node("Relu", name, f"{name}r") for name in pieces.split()]
    return [*made, node("Concat", " ".join(names), "j", axis=axis), *behind]


def _check(data: bytes, feeds: Arrays) -> None:
    for actual, wanted in zip(run_here(data, feeds), run_plain(data, feeds), strict=True):
        assert_close(actual, wanted)


@pytest.mark.parametrize("pieces", ["a b", "a b c", "a b c d"])
@pytest.mark.parametrize("behind", ["", "Relu", "Add"])
def test_a_convolution_of_pieces(split: list[str], pieces: str, behind: str) -> None:
    """With a bias, and with what follows: a function, and a sum with another tensor."""
    names = pieces.split()
    random = np.random.default_rng(len(names))
    feeds = _drawn(random, **{name: (2, 16 * (1 + place), 7, 5) for place, name in enumerate(names)}, r=(2, 4, 7, 5))
    wide = sum(feeds[name].shape[1] for name in names)
    constants = _drawn(random, w=(4, wide, 1, 1), s=(4,))
    last = [node("Conv", "j w s", "y" if not behind else "t")]
    if behind:
        last.append(node(behind, "t r" if behind == "Add" else "t", "y"))
    if behind != "Add":
        del feeds["r"]
    _check(model(_joined(*last, pieces=pieces), feeds, constants), feeds)
    assert split == ["w"]


def test_several_readers(split: list[str]) -> None:
    """Each is split, and nothing is put side by side."""
    random = np.random.default_rng(1)
    feeds = _drawn(random, a=(1, 32, 6, 6), b=(1, 32, 6, 6))
    constants = _drawn(random, w=(8, 64, 1, 1), v=(16, 64, 1, 1))
    nodes = _joined(node("Conv", "j w", "y"), node("Conv", "j v", "z", strides=[2, 2]))
    _check(model(nodes, feeds, constants, ("y", "z")), feeds)
    assert sorted(split) == ["v", "w"]


def test_rows_and_volumes(split: list[str]) -> None:
    """The inputs have one or three spatial dimensions; an axis may be counted from the end."""
    random = np.random.default_rng(2)
    for spatial in ((9,), (3, 4, 5)):
        feeds = _drawn(random, a=(1, 16, *spatial), b=(1, 16, *spatial))
        constants = _drawn(random, w=(4, 32, *(1,) * len(spatial)))
        _check(model(_joined(node("Conv", "j w", "y"), axis=-1 - len(spatial)), feeds, constants), feeds)
    assert split == ["w", "w"]


_REFUSED = {
    "a window of several pixels": ([node("Conv", "j w", "y")], {"w": (4, 32, 3, 3)}, ("y",)),
    "padding": ([node("Conv", "j w", "y", pads=[1, 1, 1, 1])], {"w": (4, 32, 1, 1)}, ("y",)),
    "groups": ([node("Conv", "j w", "y", group=2)], {"w": (4, 16, 1, 1)}, ("y",)),
    "more channels than are joined": ([node("Conv", "j w", "y")], {"w": (48, 32, 1, 1)}, ("y",)),
    "another reader": ([node("Conv", "j w", "y"), node("Sigmoid", "j", "z")], {"w": (4, 32, 1, 1)}, ("y", "z")),
    "an output of the region": ([node("Conv", "j w", "y")], {"w": (4, 32, 1, 1)}, ("y", "j")),
    "weights of two": ([node("Conv", "j w", "y"), node("Conv", "j w", "z")], {"w": (4, 32, 1, 1)}, ("y", "z")),
}


@pytest.mark.parametrize("why", list(_REFUSED))
def test_others_are_put_side_by_side(split: list[str], why: str) -> None:
    """And give the same results as ever."""
    nodes, shapes, outputs = _REFUSED[why]
    random = np.random.default_rng(3)
    feeds = _drawn(random, a=(1, 16, 6, 6), b=(1, 16, 6, 6))
    behind = nodes
    if why == "weights of two":  # of different strides, else they would be one
        behind = [nodes[0], node("Conv", "j w", "z", strides=[2, 2])]
    _check(model(_joined(*behind), feeds, _drawn(random, **shapes), outputs), feeds)
    assert split == []


@pytest.mark.parametrize("channels", [(8, 24), (16, 20)])
def test_odd_pieces_are_put_side_by_side(split: list[str], channels: tuple[int, int]) -> None:
    random = np.random.default_rng(4)
    feeds = _drawn(random, a=(1, channels[0], 6, 6), b=(1, channels[1], 6, 6))
    _check(model(_joined(node("Conv", "j w", "y")), feeds, _drawn(random, w=(4, sum(channels), 1, 1))), feeds)
    assert split == []


def test_channels_that_are_not_known_are_put_side_by_side(split: list[str]) -> None:
    """The cut of the weights would be known too late."""
    random = np.random.default_rng(5)
    feeds = _drawn(random, a=(1, 16, 6, 6), b=(1, 16, 6, 6))
    _check(model(_joined(node("Conv", "j w", "y")), feeds, _drawn(random, w=(4, 32, 1, 1)), dynamic=True), feeds)
    assert split == []


def test_bfloat16_is_put_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum of the first pieces would be rounded."""
    if Element.BF16 not in native_elements(open_library().isa):
        pytest.skip("this CPU has no instructions for bfloat16: it is float32 instead")

    def never(*_: object) -> dict[str, tuple[str, ...]]:
        raise AssertionError("asked to split")

    monkeypatch.setattr(region, "split_sums", never)
    random = np.random.default_rng(6)
    feeds = _drawn(random, a=(1, 16, 6, 6), b=(1, 16, 6, 6))
    data = model(_joined(node("Conv", "j w", "y")), feeds, _drawn(random, w=(4, 32, 1, 1)))
    with open_session(data, precision="bfloat16") as session:
        session.run(None, feeds)


def test_the_original_comes_back_of_its_parts() -> None:
    """For whoever else needs the weights: bit for bit."""
    array = np.random.default_rng(7).standard_normal((4, 48, 1, 1), np.float32)
    parts = tuple(MadeWeight(array[:, start : start + 16]) for start in (0, 16, 32))
    np.testing.assert_array_equal(region._side_by_side(parts), array)
