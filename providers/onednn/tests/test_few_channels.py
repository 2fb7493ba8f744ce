"""Convolutions of pictures: the same results however channels lie, and no picture moved where pools follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_kit.tolerances import assert_close
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.library import open_library
from ort_py_onednn.binding.primitive import Primitive
from ort_py_onednn.execution.plan import Buffer, Place, Plan
from ort_py_onednn.lowering.few_channels import lying_last
from ort_py_onednn.lowering.planner import Planner
from ort_py_onednn.lowering.values import Value
from providers.onednn.tests.models import model, node, run_here, run_plain

RNG = np.random.default_rng(12)


def _f(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape, np.float32)


_POOL = node("MaxPool", "c", "p", kernel_shape=[3, 3], strides=[2, 2])
_MEAN = node("AveragePool", "c", "q", kernel_shape=[3, 3], strides=[2, 2])
_NEXT = node("Conv", "c v", "p", pads=[1, 1, 1, 1])
_BEHIND = {
    "a pool": [_POOL, node("Relu", "p", "y")],
    "two pools": [_POOL, _MEAN, node("Add", "p q", "y")],
    "a convolution": [_NEXT, node("Relu", "p", "y")],
    "a pool and another reader": [_POOL, node("Exp", "c", "e"), node("ReduceMean", "e", "m"), node("Add", "p m", "y")],
    "a pool, then a convolution": [_POOL, node("Conv", "p v", "y", pads=[1, 1, 1, 1])],
    "nothing": [node("Identity", "c", "y")],
}


def _picture(behind: str, outputs: int, inputs: int = 3) -> tuple[bytes, Any]:
    feeds = {"x": _f(2, inputs, 19, 23)}
    nodes = [node("Conv", "x w b", "a", strides=[2, 2], pads=[1, 1, 1, 1]), node("Relu", "a", "c"), *_BEHIND[behind]]
    constants = {"w": _f(outputs, inputs, 3, 3), "b": _f(outputs), "v": _f(32, outputs, 3, 3) / 9}
    read = {name for one in nodes for name in one.input}
    return model(nodes, feeds, {name: array for name, array in constants.items() if name in read}), feeds


@pytest.mark.parametrize("outputs", [5, 8, 16, 24, 64])
@pytest.mark.parametrize("behind", _BEHIND)
def test_results_are_those_of_the_definition(behind: str, outputs: int) -> None:
    """Channels that are a block, a part of one, and several."""
    data, feeds = _picture(behind, outputs)
    assert_close(run_here(data, feeds)[0], run_plain(data, feeds)[0])


@pytest.mark.parametrize("inputs", [1, 4])
def test_pictures_of_other_kinds(inputs: int) -> None:
    """One channel, and four."""
    data, feeds = _picture("a pool", 16, inputs)
    assert_close(run_here(data, feeds)[0], run_plain(data, feeds)[0])


@pytest.mark.parametrize("behind", ["a pool", "two pools", "a pool, then a convolution"])
def test_pictures_are_not_moved_where_pools_follow(plans: list[Plan], behind: str) -> None:
    """The convolution reads the input as it comes."""
    data, feeds = _picture(behind, 64)
    run_here(data, feeds)
    first = plans[0].steps[0].primitive
    assert isinstance(first, Primitive)
    assert Argument.WEIGHTS in first.arguments


@pytest.mark.parametrize(
    ("dims", "last"),
    [((2, 8, 5, 3), True), ((2, 8, 4), True), ((2, 16, 5, 3), False), ((2, 5, 5, 3), False)],
    ids=str,
)
def test_one_block_of_channels_lies_last(dims: tuple[int, ...], last: bool) -> None:
    """Several blocks of eight do not, and neither does one that is filled up."""
    desc = Desc.blocked(dims)
    planner = Planner(open_library(), {}, {}, 1, {}, Primitive.generate)
    value = Value(desc, Buffer(Place.ARENA, desc.nbytes), dims)
    found = lying_last(planner, value)
    assert found.buffer is value.buffer
    assert found.desc.same(Desc.channels_last(dims) if last else desc)
