"""Numbers that shapes are computed from, made constants although some sizes are symbolic."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.transforms.elimination.no_ops import noop_rules
from ort_py.transforms.folding.constant_folding import ConstantFolding
from ort_py.transforms.folding.shape_computation import ShapeComputationFolding

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((2, 3, 8)).astype(np.float32)


def test_a_fixed_size_among_symbolic_ones_is_a_constant() -> None:
    """Shape, Gather and what is computed from the one size that is known are gone."""
    model, _ = optimise(
        """g (float[B, S, 8] x) => (float[B, S, 2, 4] y) <int64 two = {2}, int64 last = {2}, int64[1] zero = {0}> {
            s = Shape(x) d = Gather(s, last) h = Div(d, two) u = Unsqueeze(h, zero)
            front = Constant<value = int64[3] {0, 0, 2}>() t = Concat<axis = 0>(front, u) y = Reshape(x, t)
        }""",
        ShapeComputationFolding(),
        ConstantFolding(),
        feeds={"x": X},
    )
    assert operators(model) == {"Reshape": 1}


def test_a_reshape_that_copies_sizes_needs_no_shape() -> None:
    """[batch, sequence, heads, width] of an input of [batch, sequence, …] is [0, 0, heads, width]."""
    model, _ = optimise(
        """g (float[B, S, 8] x) => (float[B, S, 2, 4] y)
        <int64 i = {0}, int64 j = {1}, int64[1] zero = {0}, int64[2] tail = {2, 4}> {
            s = Shape(x) b = Gather(s, i) c = Gather(s, j) bu = Unsqueeze(b, zero) cu = Unsqueeze(c, zero)
            t = Concat<axis = 0>(bu, cu, tail) y = Reshape(x, t)
        }""",
        ShapeComputationFolding(),
        feeds={"x": X},
    )
    assert operators(model) == {"Reshape": 1}
    target = model.graph.nodes[0].inputs[1]
    assert target is not None
    assert target.weight is not None
    assert target.weight.array().tolist() == [0, 0, 2, 4]


REPEATED = """g (float[B, S, 8] x, float[B, T, 8] m) => (float[B, T, 8] y) <
    int64 i = {1}, int64 none = {0}, int64[1] zero = {0}, int64[1] one = {1}, int64[4] two = {1, 2, 1, 1},
    int64[1] sixteen = {16}, %s
> {
    s = Shape(x) n = Gather(s, i) u = Unsqueeze(n, zero)
    f = Gather(s, none) b = Unsqueeze(f, zero) t = Concat<axis = 0>(b, u, sixteen)
    wide = Unsqueeze(x, one) twice = Expand(wide, two) flat = Reshape(twice, t)
    r = Shape(flat) k = Gather(r, place) v = Unsqueeze(k, zero)
    a = Slice(m, zero, u, one) y = Slice(a, zero, v, one)
}"""


def test_numbers_that_were_computed_before_are_taken_from_there() -> None:
    """A value of which only a size was read that another one has, too, is not computed any more."""
    model, _ = optimise(
        REPEATED % "int64 place = {1}", ShapeComputationFolding(), feeds={"x": X, "m": np.concatenate([X, X], axis=1)}
    )
    assert operators(model) == {"Shape": 1, "Gather": 1, "Unsqueeze": 1, "Slice": 2}


def test_numbers_that_may_differ_are_computed() -> None:
    """Another size of the same value is another number: it is taken from where it was computed."""
    model, _ = optimise(
        REPEATED % "int64 place = {0}", ShapeComputationFolding(), feeds={"x": X, "m": np.concatenate([X, X], axis=1)}
    )
    assert operators(model)["Slice"] == 2
    assert operators(model)["Gather"] == 2
    assert operators(model)["Expand"] == 0


@pytest.mark.parametrize("of", ["Shape(x)", "Shape(w)"])
def test_sizes_of_one_name_may_differ_in_a_run(of: str) -> None:
    """Height and width, or the rows of two inputs, are computed from the values that they belong to."""
    model, _ = optimise(
        f"""g (float[H, H] x, float[3, H] w) => (int64 y, int64 z) <int64 i = {{0}}, int64 j = {{1}}> {{
            s = Shape(x) t = {of} a = Gather(s, i) b = Gather(t, j) y = Neg(a) z = Neg(b)
        }}""",
        ShapeComputationFolding(),
        feeds={"x": np.zeros((4, 5), np.float32), "w": np.zeros((3, 7), np.float32)},
    )
    assert operators(model)["Gather"] == 2


def test_equal_numbers_of_other_types_are_kept_apart() -> None:
    """A Cast to another type of integers makes a value of its own."""
    model, _ = optimise(
        """g (float[B, S, 8] x) => (int32[3] y, int64[3] z) {
            s = Shape(x) c = Cast<to = 6>(s) t = Shape(x) y = Neg(c) z = Neg(t)
        }""",
        ShapeComputationFolding(),
        feeds={"x": X},
    )
    assert operators(model) == {"Shape": 1, "Cast": 1, "Neg": 2}


def test_an_output_of_numbers_computed_before_is_kept() -> None:
    """The caller gets both values, under their names."""
    model, _ = optimise(
        "g (float[B, S, 8] x) => (int64[3] y, int64[3] z) { y = Shape(x) z = Shape(x) }",
        ShapeComputationFolding(),
        feeds={"x": X},
    )
    assert operators(model) == {"Shape": 2}


def test_empty_inputs_have_their_shape_still() -> None:
    """A batch of nothing is reshaped as before."""
    optimise(
        """g (float[B, S, 8] x) => (float[B, S, 2, 4] y) <int64[1] i = {0}, int64[1] j = {1}, int64[2] tail = {2, 4}> {
            s = Shape(x) b = Gather(s, i) c = Gather(s, j) t = Concat<axis = 0>(b, c, tail) y = Reshape(x, t)
        }""",
        ShapeComputationFolding(),
        feeds={"x": X[:0]},
    )


def test_positions_of_a_sequence_have_its_size() -> None:
    """Range from 0 to the sequence's size has that many: an Expand to that size is nothing."""
    model, _ = optimise(
        """g (float[B, S, 8] x) => (int64[S] y)
        <int64[1] i = {1}, int64[1] zero = {0}, int64 none = {0}, int64 one = {1}> {
            s = Shape(x) n = Gather(s, i) m = Squeeze(n, zero) r = Range(none, m, one) t = Expand(r, n) y = Neg(t)
        }""",
        ShapeComputationFolding(),
        *noop_rules(),
        feeds={"x": X},
    )
    assert operators(model)["Expand"] == 0


def test_positions_behind_a_past_have_the_size_of_what_is_new() -> None:
    """Range from past to past + new: an Expand to the new positions' size repeats nothing."""
    model, _ = optimise(
        """g (float[P] past, float[B, S, 8] x) => (int64[S] y)
        <int64[1] i = {1}, int64[1] zero = {0}, int64 one = {1}> {
            p = Shape(past) f = Squeeze(p, zero) s = Shape(x) n = Gather(s, i) m = Squeeze(n, zero)
            e = Add(f, m) r = Range(f, e, one) t = Expand(r, n) y = Neg(t)
        }""",
        ShapeComputationFolding(),
        *noop_rules(),
        feeds={"past": X[0, 0, :5], "x": X},
    )
    assert operators(model)["Expand"] == 0


def test_positions_that_do_not_end_at_a_sum_of_their_start_stay() -> None:
    """The sequence's size less the past's may be nothing, or less."""
    model, _ = optimise(
        """g (float[P] past, float[B, S, 8] x) => (int64[M] y)
        <int64[1] i = {1}, int64[1] zero = {0}, int64 one = {1}> {
            p = Shape(past) f = Squeeze(p, zero) s = Shape(x) n = Gather(s, i) m = Squeeze(n, zero)
            r = Range(f, m, one) t = Expand(r, n) y = Neg(t)
        }""",
        ShapeComputationFolding(),
        *noop_rules(),
        feeds={"past": X[0, 0, :2], "x": X},
    )
    assert operators(model)["Expand"] == 1


def test_a_row_tiled_to_a_batch_has_its_size() -> None:
    """Tile of one row has as many rows as it is repeated: an Expand to the batch's size is nothing."""
    model, _ = optimise(
        """g (float[B, S, 8] x, float[1, 8] row) => (float[B, 8] y)
        <int64[1] i = {0}, int64[1] one = {1}, int64[1] last = {2}> {
            s = Shape(x) b = Gather(s, i) h = Gather(s, last) n = Concat<axis = 0>(b, one) k = Tile(row, n)
            t = Concat<axis = 0>(b, h) e = Expand(k, t) y = Relu(e)
        }""",
        ShapeComputationFolding(),
        *noop_rules(),
        feeds={"x": X, "row": X[0, :1]},
    )
    assert operators(model)["Expand"] == 0


def test_two_rows_tiled_to_a_batch_have_an_unknown_size() -> None:
    """There are twice as many rows as it is repeated."""
    model, _ = optimise(
        """g (float[B, S, 8] x, float[2, 8] row) => (float[M, 8] y)
        <int64[1] i = {0}, int64[1] one = {1}, int64[1] last = {2}> {
            s = Shape(x) b = Gather(s, i) h = Gather(s, last) n = Concat<axis = 0>(b, one) k = Tile(row, n)
            d = Add(b, b) t = Concat<axis = 0>(d, h) e = Expand(k, t) y = Relu(e)
        }""",
        ShapeComputationFolding(),
        *noop_rules(),
        feeds={"x": X, "row": X[0, :2]},
    )
    assert operators(model)["Expand"] == 1


def test_sizes_of_a_value_without_names_are_known_as_its_own() -> None:
    """NonZero makes a size without a name; a Reshape to it is one that copies it."""
    model, _ = optimise(
        """g (float[8] x) => (int64[1, N, 1] y) <int64[1] one = {1}> {
            n = NonZero(x) s = Shape(n) t = Concat<axis = 0>(s, one) y = Reshape(n, t)
        }""",
        ShapeComputationFolding(),
        feeds={"x": X[0, 0]},
    )
    assert operators(model) == {"NonZero": 1, "Reshape": 1}


def test_two_computed_sizes_stay() -> None:
    """-1 can stand for one size only."""
    model, report = optimise(
        """g (float[B, S, 8] x, int64[2] n) => (float[P, Q, 2] y, int64[3] s)
        <int64[1] two = {2}, int64[2] ones = {1, 1}> {
            m = Mul(n, ones) s = Shape(x) k = Concat<axis = 0>(m, two) y = Reshape(x, k)
        }""",
        ShapeComputationFolding(),
        feeds={"x": X, "n": np.array([6, 4], np.int64)},
    )
    assert operators(model)["Concat"] == 1
    assert "2 sizes of its result are not those of its input" in notes(report)


def test_an_unknown_size_beside_one_that_may_be_nothing_stays() -> None:
    """-1 has no answer where another size is 0."""
    model, report = optimise(
        """g (float[B, S, 8] x) => (float[B, P, 4] y) <int64[1] i = {0}, int64[1] j = {1}, int64[1] two = {2},
        int64[1] four = {4}> {
            s = Shape(x) b = Gather(s, i) c = Gather(s, j) d = Mul(c, two)
            t = Concat<axis = 0>(b, d, four) y = Reshape(x, t)
        }""",
        ShapeComputationFolding(),
        feeds={"x": X},
    )
    assert operators(model)["Concat"] == 1
    assert "another one may be 0" in notes(report)


@pytest.mark.parametrize("rows", [0, 2])
def test_a_computed_zero_copies_a_size_of_the_input(rows: int) -> None:
    """A Reshape to [0, -1] keeps the first size, which another number in its place would not."""
    optimise(
        """g (float[1, N, 3] x) => (float[P, Q] y) <int64[1] i = {1}, int64[1] rest = {-1}> {
            m = Neg(x) s = Shape(m) n = Gather(s, i) t = Concat<axis = 0>(n, rest) y = Reshape(m, t)
        }""",
        ShapeComputationFolding(),
        feeds={"x": np.zeros((1, rows, 3), np.float32)},
    )


def test_one_unknown_size_beside_known_ones_is_left_to_the_reshape() -> None:
    """[batch * sequence, 8] is [-1, 8]."""
    model, _ = optimise(
        """g (float[B, S, 8] x) => (float[P, 8] y) <int64[1] i = {0}, int64[1] j = {1}, int64[1] k = {2}> {
            s = Shape(x) b = Gather(s, i) c = Gather(s, j) d = Mul(b, c) e = Gather(s, k)
            t = Concat<axis = 0>(d, e) y = Reshape(x, t)
        }""",
        ShapeComputationFolding(),
        feeds={"x": X},
    )
    assert operators(model) == {"Reshape": 1}


def test_an_expand_as_torch_writes_it_is_nothing() -> None:
    """Where and Equal choose between -1 and a size: a size is never -1, and what has it already is not repeated."""
    model, _ = optimise(
        """g (float[B, S, 8] x) => (float[B, S, 8] y) <int64[1] minus = {-1}, int64[3] ones = {1, 1, 1}> {
            s = Shape(x) e = Equal(s, minus) t = Where(e, ones, s) r = Expand(x, t) y = Relu(r)
        }""",
        ShapeComputationFolding(),
        *noop_rules(),
        feeds={"x": X},
    )
    assert operators(model) == {"Relu": 1}


def test_an_expand_to_another_size_stays() -> None:
    """The size asked for is that of another input."""
    model, _ = optimise(
        """g (float[B, 1] x, float[N] z) => (float[B, N] y) <int64[1] i = {0}> {
            s = Shape(x) b = Gather(s, i) n = Shape(z) t = Concat<axis = 0>(b, n) y = Expand(x, t)
        }""",
        ShapeComputationFolding(),
        feeds={"x": X[0, :, :1], "z": X[0, 0]},
    )
    assert operators(model)["Concat"] == 1


def test_a_slice_up_to_the_size_of_its_input_reads_constants() -> None:
    """The end is the size along that axis: to the end."""
    model, _ = optimise(
        """g (float[B, S, 8] x) => (float[B, T, 8] y) <int64[1] one = {1}> {
            s = Shape(x) e = Gather(s, one) y = Slice(x, one, e, one)
        }""",
        ShapeComputationFolding(),
        feeds={"x": X},
    )
    assert operators(model) == {"Slice": 1}


def test_a_slice_up_to_another_size_stays() -> None:
    """The batch may be smaller than the sequence."""
    model, _ = optimise(
        """g (float[B, S, 8] x) => (float[B, T, 8] y) <int64[1] zero = {0}, int64[1] one = {1}> {
            s = Shape(x) e = Gather(s, zero) y = Slice(x, zero, e, one)
        }""",
        ShapeComputationFolding(),
        feeds={"x": X},
    )
    assert operators(model)["Gather"] == 1


def test_returned_numbers_are_still_computed_by_name() -> None:
    """A graph output does not justify a copy of a constant."""
    model, _ = optimise(
        "g (float[B, S, 8] x) => (int64 n) <int64 last = {2}> { s = Shape(x) n = Gather(s, last) }",
        ShapeComputationFolding(),
        feeds={"x": X},
    )
    assert operators(model) == {"Shape": 1, "Gather": 1}


def test_nested_graphs_know_the_numbers_outside() -> None:
    """A branch that reads a size of the graph around gets the constant."""
    model, _ = optimise(
        """g (float[B, 8] x, bool c) => (float[P, Q] y) <int64[1] last = {1}, int64[1] minus = {-1}> {
            s = Shape(x) d = Gather(s, last)
            y = If (c) <then_branch = t () => (float[P, Q] a) { k = Concat<axis = 0>(minus, d) a = Reshape(x, k) },
                        else_branch = e () => (float[P, Q] b) { b = Identity(x) }>
        }""",
        ShapeComputationFolding(),
        feeds={"x": X[0], "c": np.array(True)},
    )
    assert operators(model) == {"If": 1, "Reshape": 1, "Identity": 1}


@pytest.mark.parametrize(
    ("operator", "constant", "known"),
    [("Max", "0", True), ("Max", "1", False), ("Min", "-1", True), ("Min", "2", False)],
)
def test_bounds_of_symbolic_sizes(operator: str, constant: str, known: bool) -> None:
    """A size is never below 0: that bound does nothing to it, and it nothing to a bound below; any other may."""
    model, _ = optimise(
        f"""g (float[B, S, 8] x) => (int64[3] y)
        <int64 c = {{{constant}}}, int64[3] ones = {{1, 1, 1}}, int64[3] none = {{0, 0, 0}}> {{
            s = Shape(x) m = {operator}(s, c) g = GreaterOrEqual(m, s) w = Where(g, ones, none) y = Add(w, none)
        }}""",
        ShapeComputationFolding(),
        feeds={"x": X},
    )
    assert (operators(model)["Shape"] == 0) is known


def test_a_size_of_nothing_in_a_target_keeps_the_size_of_the_source() -> None:
    """The Reshape makes another size than its target says then."""
    optimise(
        """g (float[A, B] x, float[N, M] z) => (int64 y, int64 u) <int64 i = {0}> {
            s = Shape(z) u = Gather(s, i) w = Reshape(x, s) r = Shape(w) y = Gather(r, i)
        }""",
        ShapeComputationFolding(),
        feeds={"x": np.zeros((1, 3), np.float32), "z": np.zeros((0, 3), np.float32)},
    )
