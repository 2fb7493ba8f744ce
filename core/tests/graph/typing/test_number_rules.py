"""Effects of operators on numbers that shapes are computed from, some of them only names of sizes."""

from __future__ import annotations

import pytest

from ort_py.dtypes import Dim, Shape, TensorType
from ort_py.graph.ir import Model
from ort_py_kit.graphs import typed_model

CONSTANTS = """int64[1] i0 = {0}, int64[1] i1 = {1}, int64[3] minus = {-1, -1, -1}, int64[3] ones = {1, 1, 1},
    int64[3] none = {0, 0, 0}, int64 two = {2}, int64 one = {1}, int64[1] three = {3}, bool[3] mask = {1, 0, 1}"""


def shape_of(model: Model, name: str) -> Shape | None:
    """The shape of a value of the main graph."""
    values = [value for node in model.graph.nodes for value in node.outputs if value is not None]
    (known,) = [value.type for value in values if value.name == name]
    assert isinstance(known, TensorType)
    return known.shape


def made_with(body: str) -> Shape | None:
    """The shape of a tensor made with the shape `t` that a body computes from the shape `s` of an input."""
    return shape_of(
        typed_model(
            f"""g (float[B, S, 8] x) => (float y) <{CONSTANTS}> {{
                s = Shape(x) {body} made = ConstantOfShape(t) y = ReduceMax<keepdims = 0>(made)
            }}"""
        ),
        "made",
    )


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("e = Equal(s, minus) t = Where(e, ones, s)", ("B", "S", 8)),
        ("t = Where(mask, s, ones)", ("B", 1, 8)),
        ("t = Max(s, none)", ("B", "S", 8)),
        ("t = Min(s, none)", (0, 0, 0)),
        ("g = Greater(s, minus) n = Not(g) t = Where(n, ones, s)", ("B", "S", 8)),
        ("g = Less(s, minus) n = Or(g, mask) t = Where(n, s, ones)", ("B", 1, 8)),
        ("g = LessOrEqual(s, s) n = And(g, mask) t = Where(n, s, ones)", ("B", 1, 8)),
        ("z = Neg(ones) a = Mul(z, minus) t = Mul(a, s)", ("B", "S", 8)),
        ("a = Add(none, s) t = Sub(a, none)", ("B", "S", 8)),
        ("a = Add(s, s) t = Sub(a, s)", ("B", "S", 8)),
        ("a = Add(s, s) b = Add(a, s) c = Sub(b, s) d = Sub(c, s) t = Add(d, none)", ("B", "S", 8)),
        ("a = Sub(s, s) t = Add(a, ones)", (1, 1, 1)),
        ("p = Slice(s, i0, i1) b = Tile(p, three) t = Add(b, none)", ("B", "B", "B")),
        ("b = Tile(s, i1) t = Add(b, none)", ("B", "S", 8)),
        ("r = Range(one, two, one) t = Concat<axis = 0>(r, three)", (1, 3)),
        ("f = ConstantOfShape<value = int64[1] {5}>(i1) t = Concat<axis = 0>(f, i1)", (5, 1)),
        ("f = Expand(two, three) t = Mul(f, ones)", (2, 2, 2)),
        ("p = Slice(s, i0, i1) q = Slice(s, three, three) t = Concat<axis = 0>(p, q)", ("B",)),
        ("p = ConstantOfShape<value = int64[1] {3}>(three) q = ReduceProd(p) t = Concat<axis = 0>(q, i1)", (27, 1)),
        ("q = ReduceProd<noop_with_empty_axes = 1>(s) t = Add(q, none)", ("B", "S", 8)),
        ("q = ReduceProd<keepdims = 0, noop_with_empty_axes = 1>(s) t = Concat<axis = 0>(q, i1)", ("B", "S", 8, 1)),
    ],
)
def test_shapes_that_follow(body: str, shape: tuple[Dim, ...]) -> None:
    """A tensor made with the computed shape has the sizes that are known, and the names of the others."""
    assert made_with(body) == shape


@pytest.mark.parametrize(
    "body",
    [
        "t = Max(s, ones)",
        "t = Min(s, ones)",
        "e = Equal(s, ones) t = Where(e, minus, s)",
        "t = Mul(s, s)",
        "t = Add(s, s)",
        "t = Add(s, ones)",
        "t = Sub(s, ones)",
    ],
)
def test_sizes_that_cannot_be_told(body: str) -> None:
    """Only the known one of three is."""
    shape = made_with(body)
    assert shape is None or not {"B", "S"}.intersection(shape)


@pytest.mark.parametrize(
    "body",
    [
        "a = Add(s, s) b = Add(a, a) c = Add(b, s) t = Sub(c, b)",  # five parts
        "m = Gather(s, two) a = Add(s, minus) b = Neg(minus) t = Add(a, b)",
        "a = Sub(s, minus) t = Add(a, minus)",
    ],
)
def test_sums_that_are_not_followed(body: str) -> None:
    """Those of many sizes, and of sizes and numbers: they come out as the size, but nothing says so."""
    shape = made_with(body)
    assert shape is None or not {"B", "S"}.intersection(shape)


def test_numbers_beyond_int32_are_not_followed_there() -> None:
    """A number that wraps around at run time is not used for typing."""
    model = typed_model(
        """g (float[8] x) => (float y) <int32 big = {2000000000}, int64[1] zero = {0}> {
            d = Mul(big, big) e = Cast<to = 7>(d) u = Unsqueeze(e, zero) f = ConstantOfShape(u)
            y = ReduceMax<keepdims = 0>(f)
        }"""
    )
    shape = shape_of(model, "f")
    assert shape is None or not isinstance(shape[0], int)


def test_sums_of_sizes_are_not_followed_in_int32() -> None:
    """Each size may fit and the sum wrap around."""
    model = typed_model(
        """g (float[A] x, float[B] z) => (float y) {
            s = Shape(x) q = Shape(z) s32 = Cast<to = 6>(s) q32 = Cast<to = 6>(q) t = Add(s32, q32)
            d = Sub(t, q32) e = Cast<to = 7>(d) f = ConstantOfShape(e) y = ReduceMax<keepdims = 0>(f)
        }"""
    )
    assert shape_of(model, "f") != ("A",)
