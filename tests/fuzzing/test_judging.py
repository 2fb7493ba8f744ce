"""The judge: planted defects are found, attributed to the provider that has them, and made small; what rounds otherwise
is excused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest

from ort_py.errors import EPFail
from ort_py_array import pooling
from ort_py_array.signal import dft
from tests.fuzzing import attacks, verdict
from tests.fuzzing.cases import Case
from tests.fuzzing.compare import difference, spread_of
from tests.fuzzing.files import as_code, case_of, write_case
from tests.fuzzing.runners import Outcome, Ran, Variant, run_numpy, run_onnxruntime, run_reference
from tests.fuzzing.shrink import shrink

VARIANT = Variant("all")


def _case(body: str, signature: str = "float[N,4] x", **feeds: Any) -> Case:
    text = f'<ir_version: 11, opset_import: ["" : 23]> g ({signature}) => (float[] y) {body}'
    given = feeds or {"x": np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)}
    return Case(onnx.parser.parse_model(text), [given])


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], Any]], None]:
    """Plants a change of every output of the session under test."""

    def plant(change: Callable[[Any], Any]) -> None:
        real = verdict.run_variant

        def run(case: Case, variant: Variant) -> Any:
            ran = real(case, variant)
            ran.outcomes = [_changed(one, change) for one in ran.outcomes]
            return ran

        monkeypatch.setattr(verdict, "run_variant", run)

    return plant


def _changed(outcome: Outcome, change: Callable[[Any], Any]) -> Outcome:
    try:
        return Outcome([change(one) for one in outcome.outputs or ()])
    except Exception as error:
        return Outcome(error=error)


def _raise(value: Any) -> Any:
    raise ValueError("not one of ours")


def _one_element(value: Any) -> Any:
    value = value.copy()
    value.flat[-1] += 0.01
    return value


def test_what_agrees_is_no_finding() -> None:
    """A plain graph, at every level."""
    assert verdict.judge(_case("{ a = Sigmoid(x) y = Mul(a, x) }"), verdict.VARIANTS) == []


def _resized(*row: float) -> Case:
    """A row of three elements of which the middle one remains."""
    picture = np.array(row, np.float32).reshape(1, 1, 1, 3)
    body = '{ y = Resize<mode = "linear">(x, , , s) }'
    return _case("<int64[4] s = {1, 1, 1, 1}>" + body, "float[1,1,1,3] x", x=picture)


def _middle(value: Any) -> Callable[[Any], Any]:
    return lambda output: np.full_like(output, value)


@pytest.mark.parametrize("row", [(1.0, 2.0, np.nan), (-np.inf, 2.0, np.inf), (np.inf, 2.0, 1.0)])
def test_neighbours_of_weight_zero_may_be_left_out(planted: Any, row: tuple[float, ...]) -> None:
    """Whether 0 times a NaN counts is open; onnxruntime and the reference differ in it."""
    planted(_middle(2.0))
    assert {one.kind for one in verdict.judge(_resized(*row), [VARIANT])} <= {"disputed"}


@pytest.mark.parametrize(
    ("row", "given"), [((1.0, np.nan, 2.0), 1.0), ((1.0, 2.0, np.nan), 3.0), ((1.0, 2.0, np.nan), 2.01)]
)
def test_neighbours_with_a_weight_count(planted: Any, row: tuple[float, ...], given: float) -> None:
    planted(_middle(given))
    assert "wrong" in {one.kind for one in verdict.judge(_resized(*row), [VARIANT])}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda value: value * np.float32(1.001), "wrong"),
        (_one_element, "wrong"),
        (lambda value: value[:-1], "wrong"),
        (lambda value: value.astype(np.float64), "wrong"),
        (lambda value: np.where(value > 1, np.nan, value).astype(np.float32), "wrong"),
        (_raise, "untyped"),
    ],
)
def test_planted_defects_are_found(planted: Any, change: Callable[[Any], Any], kind: str) -> None:
    """Wrong values, one wrong element, a wrong shape or type, NaN, and an exception that is none of ours."""
    planted(change)
    found = verdict.judge(_case("{ a = Softmax(x) b = Mul(a, x) y = Exp(b) }"), [VARIANT])
    assert {(one.kind, one.who) for one in found} == {(kind, "all")}


def test_computing_what_others_refuse_is_found(planted: Any) -> None:
    """Squeeze of an axis of size 4: NumPy and onnxruntime refuse; who computes it is found out."""
    case = _case("<int64[1] axes = {1}> { a = Relu(x) y = Squeeze(a, axes) }")
    assert verdict.judge(case, [Variant("plain", plain=True)]) == []
    planted(lambda value: value)
    found = verdict.judge(case, [Variant("plain", plain=True)])
    assert {(one.kind, one.who) for one in found} == {("computes", "plain")}


def test_a_failure_that_another_provider_hides_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are right where another provider takes over; that the first one failed is a defect all the same."""

    def fails(*arguments: Any, **options: Any) -> None:
        raise EPFail("planted")

    monkeypatch.setattr("ort_py_onednn.execution.instance._Form", fails)
    found = verdict.judge(_case("{ a = Softmax(x) b = Mul(a, x) y = Exp(b) }"), [VARIANT])
    assert {(one.kind, one.who) for one in found} == {("failed", "all")}
    assert "planted" in found[0].text


def test_nodes_that_no_output_needs_may_fail_unnoticed() -> None:
    """Only a Shape reads the Reshape, whose result has a known shape: onnxruntime does not run it either."""
    case = _case("<int64[1] target = {360}> { a = Reshape(x, target) s = Shape(a) y = Cast<to = 1>(s) }")
    assert verdict.judge(case, [Variant("all")]) == []


def test_a_size_reads_no_more_than_a_shape() -> None:
    """The result of a Squeeze of an axis of size 3 is not needed for the number of its elements."""
    case = _case(
        "<int64[1] last = {-1}> { a = Squeeze(x, last) s = Size(a) y = Cast<to = 1>(s) }",
        "float[2,4,N] x",
        x=np.ones((2, 4, 3), np.float32),
    )
    assert verdict.judge(case, [Variant("all")]) == []


IMPOSSIBLE = "<int64[1] target = {7}> { a = Reshape(x, target) s = Shape(a) z = Size(a) y = Softmax(x) }"
"""A Reshape of twelve elements to seven, whose elements no output needs."""


def _beside_the_impossible(body: str = IMPOSSIBLE) -> Case:
    case = _case(body, "float[3,4] x")
    case.model.graph.output.extend([onnx.helper.make_empty_tensor_value_info(name) for name in ("s", "z")])
    return case


def test_the_shape_of_what_cannot_be_computed_is_not_judged() -> None:
    """The other outputs must be what they are without it."""
    case = _beside_the_impossible()
    assert run_numpy(case).outcomes[0].typed
    assert verdict.judge(case, [VARIANT]) == []


def test_a_body_that_cannot_be_computed_is_not_judged() -> None:
    """The refusal names a node of a Scan, of which only the shape of a result is read."""
    case = _case(
        """{
            last, a = Scan<num_scan_inputs = 1, body = b (float[4] s, float[4] i) => (float[4] o, float[4] e) {
                o = Add(s, i) e = Tanh(o)
            }>(start, x) s = Shape(a) z = Size(last) y = Softmax(start)
        }""",
        "float[N,W] x, float[4] start",
        x=np.ones((3, 5), np.float32),
        start=np.ones(4, np.float32),
    )
    case.model.graph.output.extend([onnx.helper.make_empty_tensor_value_info(name) for name in ("s", "z")])
    assert "inside" in str(run_numpy(case).outcomes[0].error)
    assert verdict.judge(case, [VARIANT]) == []


def test_wrong_outputs_beside_the_impossible_are_found(planted: Any) -> None:
    """All that is excused is the shape and what follows from it."""
    planted(lambda value: value * np.float32(1.001) if value.dtype == np.float32 else value)
    found = verdict.judge(_beside_the_impossible(), [VARIANT])
    assert {(one.kind, one.who) for one in found} == {("computes", "all")}


def test_elements_of_the_impossible_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an output needs them, whoever has them computes what cannot be computed."""
    case = _beside_the_impossible(IMPOSSIBLE.replace("Softmax(x)", "Softmax(a)"))
    made = Outcome([np.zeros(7, np.float32), np.array([7]), np.array(7)])
    monkeypatch.setattr(verdict, "run_variant", lambda case, variant: Ran([made]))
    found = verdict.judge(case, [VARIANT])
    assert {(one.kind, one.who) for one in found} == {("computes", "all")}


def _stacking(read: str) -> Case:
    """A Loop whose state grows in the first iteration, so that its states cannot be stacked."""
    body = """<int64 two = {2}, bool yes = {1}> {
        last, all = Loop <body = b (int64 i, bool c, float[] s) => (bool d, float[] o, float[] e) {
            d = Identity(c) o = Add(s, x) e = Tanh(s)
        }>(two, yes, start)
    """
    feeds = {"x": np.ones((3, 4), np.float32), "start": np.ones(4, np.float32)}
    return _case(f"{body} y = Neg({read}) }}", "float[3,4] x, float[4] start", **feeds)


@pytest.mark.parametrize(("value", "kinds"), [(-3.0, set()), (-3.1, {"computes"})])
def test_what_a_loop_stacks_for_nobody_may_fail_unnoticed(
    monkeypatch: pytest.MonkeyPatch, value: float, kinds: set[str]
) -> None:
    """Its other results must be right."""
    case = _stacking("last")
    assert run_numpy(case).outcomes[0].typed
    made = Outcome([np.full((3, 4), value, np.float32)])
    monkeypatch.setattr(verdict, "run_variant", lambda case, variant: Ran([made]))
    assert {one.kind for one in verdict.judge(case, [VARIANT])} == kinds


def test_what_a_loop_cannot_stack_is_refused_where_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has it computes what cannot be computed."""
    monkeypatch.setattr(verdict, "run_variant", lambda case, variant: Ran([Outcome([np.zeros((2, 4), np.float32)])]))
    assert {one.kind for one in verdict.judge(_stacking("all"), [VARIANT])} == {"computes"}


SLOPES = "{ a = Abs(x) y = PRelu(a, slope) }"
"""onnxruntime and the reference broadcast the slope and the input to each other."""


def _slopes(columns: int) -> Case:
    shapes = {"x": (3, columns), "slope": (3, 4)}
    return _case(
        SLOPES, "float[3,N] x, float[3,4] slope", **{name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    )


def test_an_operand_that_must_not_be_enlarged_may_be_refused() -> None:
    """The specification lets PRelu broadcast its slope to the input, not the input to the slope."""
    case = _slopes(1)
    assert run_numpy(case).outcomes[0].typed
    assert verdict.judge(case, [VARIANT]) == []


def test_refusing_an_operand_that_fits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same refusal of a slope that has the shape of the input."""
    refusal = run_numpy(_slopes(1)).outcomes[0]
    monkeypatch.setattr(verdict, "run_numpy", lambda case: Ran([refusal]))
    found = verdict.judge(_slopes(4), [])
    assert {(one.kind, one.who) for one in found} == {("refuses", "numpy")}


ATTENTION = """<float k = {0.125}> {
    t = Transpose<perm = [1, 0]>(b) s = MatMul(x, t) m = Mul(s, k) p = Softmax(m) y = MatMul(p, v)
}"""


def _signal(parts: int) -> Case:
    signal = np.ones((2, 8, parts), np.float32)
    return _case("<int64 s = {2}, int64 n = {4}> { y = STFT(x, s, , n) }", "float[2,8,N] x", x=signal)


def test_half_of_the_spectrum_of_a_complex_signal_may_be_refused() -> None:
    """The specification calls it impossible; onnxruntime and the reference give it."""
    assert run_numpy(_signal(2)).outcomes[0].typed
    assert verdict.judge(_signal(2), [VARIANT]) == []


def test_refusing_half_of_the_spectrum_of_a_real_signal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same refusal, of a signal that has no imaginary part."""
    refusal = run_numpy(_signal(2)).outcomes[0]
    monkeypatch.setattr(verdict, "run_numpy", lambda case: Ran([refusal]))
    assert {(one.kind, one.who) for one in verdict.judge(_signal(1), [])} == {("refuses", "numpy")}


def _pooled(stride: int) -> Case:
    """A pool that has to be padded by nothing; with a stride of 3, the formula of the padding gives -2."""
    attributes = f'auto_pad = "SAME_UPPER", dilations = [1, 2], kernel_shape = [2, 1], strides = [1, {stride}]'
    x = np.arange(36, dtype=np.float32).reshape(1, 2, 3, 6)
    return _case(f"{{ y = MaxPool <{attributes}> (x) }}", "float[1,2,3,6] x", x=x)


def test_a_padding_below_zero_may_be_none() -> None:
    """onnxruntime and the reference take the middle column of three; no padding takes the first."""
    assert verdict.judge(_pooled(3), [VARIANT]) == []


def _dilated_pool() -> Case:
    body = '{ y = MaxPool<auto_pad = "SAME_LOWER", dilations = [2], kernel_shape = [2], strides = [2]>(x) }'
    return _case(body, "float[1,1,5] x", x=np.arange(5, dtype=np.float32).reshape(1, 1, 5))


def test_a_padding_of_dilated_windows_may_be_larger_than_onnxruntimes() -> None:
    """The specification counts dilations, so that a row of 5 has 3 windows; onnxruntime and the reference find 2."""
    outcome = run_numpy(_dilated_pool()).outcomes[0].outputs or []
    np.testing.assert_array_equal(outcome[0], [[[1, 3, 3]]])
    assert verdict.judge(_dilated_pool(), [VARIANT]) == []


@pytest.mark.parametrize(("parts", "kinds"), [("4, 1", ["disputed"]), ("5, 1", [])])
def test_what_a_stride_leaves_out_belongs_to_a_transposed_convolution(parts: str, kinds: list[str]) -> None:
    """Three columns with a stride of 2 and windows of 1 become 6 by the specification, and 5 in onnxruntime."""
    body = '{ a = ConvTranspose<auto_pad = "SAME_UPPER", strides = [2]>(x, w) y, z = Split<axis = -1>(a, p) }'
    head = f"<int64[2] p = {{{parts}}}, float[1,1,1] w = {{1}}>"
    case = _case(head + body, "float[1,1,3] x", x=np.zeros((1, 1, 3), np.float32))
    assert [one.kind for one in verdict.judge(case, [VARIANT]) if one.who == "numpy"] == kinds


def test_wrong_elements_beside_a_padding_of_dilated_windows_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are compared with those of the same padding, written out."""
    real = pooling.pool
    monkeypatch.setattr(pooling, "pool", lambda *arguments: real(*arguments) + np.float32(100))
    assert {(one.kind, one.who) for one in verdict.judge(_dilated_pool(), [])} == {("wrong", "numpy")}


@pytest.mark.parametrize("stride", [1, 3])
def test_wrong_elements_beside_a_padding_below_zero_are_found(monkeypatch: pytest.MonkeyPatch, stride: int) -> None:
    """What follows from no padding is known, so any other element is wrong."""
    real = pooling.pool
    monkeypatch.setattr(pooling, "pool", lambda *arguments: real(*arguments) + np.float32(100))
    assert "wrong" in [one.kind for one in verdict.judge(_pooled(stride), [])]


def _overflowing_attention() -> Case:
    """Attention of which the first row's score of the third key overflows before it is scaled."""
    queries = np.array([[2e19, 0, 1, 0], [0.5, 1, -1, 2], [1, 0, -0.5, 1]], np.float32)
    keys = np.array([[1, 0, 2, 0], [0, 1, 1, 0], [2e19, 0, 0, 0]], np.float32)
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    return _case(ATTENTION, "float[3,4] x, float[3,4] b, float[3,4] v", x=queries, b=keys, v=values)


def test_scores_that_overflow_before_they_are_scaled_are_excused() -> None:
    """docs/user/semantics.md says so: the row is NaN if the bare product is computed, and a number if it is scaled."""
    case = _overflowing_attention()
    (exact,) = run_numpy(case).outcomes
    assert exact.outputs is not None
    assert np.isnan(exact.outputs[0]).all(1).tolist() == [True, False, False]
    spread = spread_of(case, case.feeds[0])
    scaled = exact.outputs[0].copy()
    scaled[0] = values = case.feeds[0]["v"][2]
    assert difference(scaled, exact.outputs[0], spread, 0, exact.outputs[0]) == ""
    scaled[1] += 0.01 * values
    assert difference(scaled, exact.outputs[0], spread, 0, exact.outputs[0]) != ""


@pytest.mark.parametrize(("query", "excused"), [([-3e38, -np.inf], True), ([-3.0, 2.0], False)])
def test_scores_that_overflow_on_their_way_beside_infinities_are_excused(query: list[float], excused: bool) -> None:
    """-6e38 + inf is NaN where the first term is rounded before the sum, and infinite where it is not."""
    nodes = "{ k = Constant <value = float[1,1,1,2] {2.0, -0.9}> () y = Attention <softcap = 2.0> (x, k, v) }"
    x, v = np.array(query, np.float32).reshape(1, 1, 1, 2), np.full((1, 1, 1, 3), 0.5, np.float32)
    case = _case(nodes, "float[1,1,1,2] x, float[1,1,1,3] v", x=x, v=v)
    assert (_judged(case, lambda array: array * np.float32(np.nan)) == "") is excused


def test_planted_errors_excuse_what_rounding_moves_only() -> None:
    """exp(40·softmax-like sums) may differ in the fourth digit; a wrong formula is wrong all the same."""
    weights = "{" + ",".join(str(number) for number in np.linspace(-1, 1, 16).round(3)) + "}"
    case = _case(f"<float[4,4] w = {weights}, float k = {{12}}> {{ a = MatMul(x, w) b = Mul(a, k) y = Exp(b) }}")
    (exact,) = run_numpy(case).outcomes
    assert exact.outputs is not None
    spread = spread_of(case, case.feeds[0])
    assert spread is not None
    result = exact.outputs[0]
    moved = result * np.float32(1 + 1.5e-4)  # an error of 1e-6 in the sum, times 12 times 10
    assert difference(moved, result) != ""
    assert difference(moved, result, spread, 0, result) == ""
    assert difference(result * np.float32(1.02), result, spread, 0, result) != ""


def _judged(case: Case, change: Callable[[Any], Any]) -> str:
    """The judgement of a result that is changed, after errors were planted."""
    (exact,) = run_numpy(case).outcomes
    assert exact.outputs is not None
    result = exact.outputs[0]
    spread = spread_of(case, case.feeds[0])
    assert spread is not None
    return difference(change(result.copy()), result, spread, 0, result)


def _with(place: tuple[int, ...], value: float) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[place] = value
        return array

    return change


@pytest.mark.parametrize(("place", "value", "excused"), [(0, np.nan, True), (1, 10.1, False), (1, np.nan, False)])
def test_what_an_optional_holds_is_judged_too(place: int, value: float, excused: bool) -> None:
    """An Optional rounds nothing, and no error can be added to it; only the first of two sums overflows on its way."""
    x = np.array([[3e38, 3e38, -3e38, 1.0], [1, 2, 3, 4]], np.float32)
    body = "<int64[1] last = {-1}> { s = ReduceSum<keepdims = 0>(x, last) o = Optional(s) y = OptionalGetElement(o) }"
    assert (_judged(_case(body, "float[2,4] x", x=x), _with((place,), value)) == "") == excused


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_may_be_infinite_where_it_is_doubled(approximate: str) -> None:
    """docs/user/semantics.md says so of numbers above 1.7e38; that others become infinite is not excused."""
    x = np.array([1.8e38, 1.6e38, 3.0, -1.8e38], np.float32)
    case = _case(f'{{ a = Gelu <approximate = "{approximate}"> (x) y = Sub(x, a) }}', "float[4] x", x=x)
    assert _judged(case, _with((0,), -np.inf)) == ""
    for place in (1, 2):
        assert _judged(case, _with((place,), -np.inf)) != ""


def test_a_sum_that_cancels_may_be_zero() -> None:
    """Integers cancel exactly where floats leave the last digit: 0 / 0 is as good there, and nowhere else."""
    x = np.array([[1, 2**-26, 0, 0], [1, 1, 1, 1]], np.float32)
    w = np.array([[1, 1], [1, 1], [1, 1], [1, 1]], np.float32)
    w[0, 0] = 0
    case = _case("{ a = MatMul(x, w) y = Div(a, a) }", "float[2,4] x, float[4,2] w", x=x, w=w)
    assert _judged(case, _with((0, 0), np.nan)) == ""
    assert _judged(case, _with((0, 1), np.nan)) != ""


def test_a_sum_that_almost_cancels_errs_by_its_terms() -> None:
    """A sum of thousands that is about 1 has few digits; but some."""
    x = np.stack([np.linspace(-1000, 1000.001, 4096), np.full(4096, 0.25)]).astype(np.float32)
    case = _case("<int64[1] k = {1}> { y = ReduceSum <keepdims = 0> (x, k) }", "float[2,4096] x", x=x)
    terms = np.abs(x).sum(1)
    assert _judged(case, lambda y: y + np.array([2e-7, 0], np.float32) * terms) == ""
    assert _judged(case, lambda y: y + np.array([3e-6, 0], np.float32) * terms) != ""


def test_a_function_that_is_almost_one_may_be_one() -> None:
    """A power of a negative number is a number only for whole exponents."""
    x = np.array([3.8, 0.5], np.float32)
    case = _case("<float k = {-0.5}> { a = Erf(x) y = Pow(k, a) }", "float[2] x", x=x)
    (exact,) = run_numpy(case).outcomes
    assert exact.outputs is not None
    assert np.isnan(exact.outputs[0][1])
    assert _judged(case, _with((0,), -0.5)) == _judged(case, _with((0,), np.nan)) == ""
    assert _judged(case, _with((1,), -0.5)) != ""


@pytest.mark.parametrize(("scale", "excused"), [(2.0**-20, True), (1.0, False)])
def test_numbers_below_the_least_of_bfloat16_may_be_zero(scale: float, excused: bool) -> None:
    """Zero times its logarithm is NaN; of what regions keep in float32 until the next node, it is next to nothing."""
    import ml_dtypes

    small = np.array([2.0**-121, 2.0**-119], ml_dtypes.bfloat16)
    body = "{ c = Mul(x, s) d = Log(c) e = Mul(c, d) y = Cast<to = 1>(e) }"
    case = _case(body, "bfloat16[2] x, bfloat16[1] s", x=small, s=np.array([scale], ml_dtypes.bfloat16))
    expected = (run_numpy(case).outcomes[0].outputs or [])[0]
    assert np.isnan(expected).all() == excused
    spread = spread_of(case, case.feeds[0])
    made = np.full(2, -1e-40 if excused else np.nan, np.float32)
    assert (difference(made, expected, spread) == "") == excused


@pytest.mark.parametrize(("start", "excused"), [(0.03, True), (0.5, False)])
def test_what_is_rounded_to_an_infinity_may_be_a_number(start: float, excused: bool) -> None:
    """The cosine of a small number is 1 in bfloat16, and not in the float32 of a region; many are in one row here."""
    import ml_dtypes

    small = np.linspace(start, start + 0.01, 24, dtype=np.float32).astype(ml_dtypes.bfloat16)
    body = "{ a = Cos(x) b = Atanh(a) c = ReduceSum(b) y = Cast<to = 1>(c) }"
    case = _case(body, "bfloat16[24] x", x=small)
    expected = (run_numpy(case).outcomes[0].outputs or [])[0]
    assert np.isinf(expected).all() == excused
    made = np.full(1, 90.0 if excused else np.inf, np.float32)
    assert (difference(made, expected, spread_of(case, case.feeds[0])) == "") == excused


@pytest.mark.parametrize("size", [1, 3, 5])
def test_the_oracle_normalises_channels_as_onnxruntime_does(size: int) -> None:
    """ONNX's own reference takes the batch, of two images here, for the channels."""
    picture = np.random.default_rng(0).standard_normal((2, 5, 3, 3)).astype(np.float32)
    body = f"{{ y = LRN<size = {size}, alpha = 0.5, beta = 0.8>(x) }}"
    case = _case(body, "float[2,5,3,3] x", x=picture)
    found, expected = (run(case)[0].outputs or [] for run in (run_reference, run_onnxruntime))
    assert difference(found[0], expected[0]) == ""


def test_the_oracles_pools_keep_what_is_not_a_number() -> None:
    """Windows with NaN are NaN in onnxruntime; ONNX's own reference leaves the element out."""
    picture = np.arange(2 * 3 * 6, dtype=np.float32).reshape(1, 2, 3, 6)
    picture[0, 1, 1, 2] = np.nan
    case = _case("{ y = LpPool<kernel_shape = [2, 2], pads = [1, 0, 0, 0]>(x) }", "float[1,2,3,6] x", x=picture)
    found, expected = (run(case)[0].outputs or [] for run in (run_reference, run_onnxruntime))
    assert np.isnan(expected[0]).sum() == 4
    assert difference(found[0], expected[0]) == ""


def test_the_mean_of_equal_elements_is_rounded() -> None:
    """Divided by almost nothing, an error of the mean shows: in rows of equal elements, and nowhere else."""
    w = np.linspace(0.5, 2, 12, dtype=np.float32)
    for row, excused in ((np.full(12, -1.4), True), (np.linspace(-1, 1, 12), False)):
        x = row.astype(np.float32)[None]
        case = _case("{ y = LayerNormalization(x, w) }", "float[1,12] x, float[12] w", x=x, w=w)
        assert (_judged(case, lambda array: array + np.float32(2e-4)) == "") is excused


def test_a_sum_hidden_by_one_behind_it_may_overflow() -> None:
    """Some elements of the second sum may overflow themselves; the others follow from those of the first."""
    x = np.full((6, 4), [1e38, 1e38, -5e37, -5e37], np.float32)
    scale = np.array([1e-5, 1, 1], np.float32)
    body = "{ a = MatMul(x, w) c = BatchNormalization(a, s, z, z, o) y = Neg(c) }"
    w, zero, one = np.ones((4, 3), np.float32), np.zeros(3, np.float32), np.ones(3, np.float32)
    signature = "float[6,4] x, float[4,3] w, float[3] s, float[3] z, float[3] o"
    case = _case(body, signature, x=x, w=w, s=scale, z=zero, o=one)
    exact = run_numpy(case).outcomes[0].outputs
    assert exact is not None
    for seed in range(6):
        spread = spread_of(case, case.feeds[0], seed)
        assert spread is not None
        assert spread.around(0, exact[0])[1].all()


def test_rows_whose_mean_may_overflow_are_open() -> None:
    """Their sum depends on the order; in other rows no NaN is excused."""
    x = np.ones((3, 4), np.float32) * np.array([[1e38], [1e34], [-1e34]], np.float32)
    x[:, ::2] *= 2
    one = np.ones(4, np.float32)
    case = _case("{ y = LayerNormalization(x, s, s) }", "float[3,4] x, float[4] s", x=x, s=one)
    assert _judged(case, _with((0, 1), np.nan)) == ""
    for row in (1, 2):
        assert _judged(case, _with((row, 1), np.nan)) != ""


def _transformed(part: float) -> Case:
    x = np.arange(6, dtype=np.float32).reshape(1, 3, 2)
    x[0, 1, 1] = part
    return _case("{ y = DFT(x) }", "float[1,3,2] x", x=x)


def test_a_transform_may_add_fewer_products_of_nan() -> None:
    """Only where NaN is fed: of numbers, a wrong element is found."""
    assert {one.kind for one in verdict.judge(_transformed(np.nan), [])} <= {"disputed"}


def test_a_wrong_transform_of_numbers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same transform without NaN, with an error."""
    real = dft._transformed
    monkeypatch.setattr(dft, "_transformed", lambda *given, **named: real(*given, **named) + np.float32(1))
    assert "wrong" in [one.kind for one in verdict.judge(_transformed(1.0), [])]


def test_signs_of_infinities_behind_an_overflow_are_open() -> None:
    """Partial sums decide which infinity a sum is, and so what a sum of such sums is; those that do not overflow do
    not have the choice."""
    x = np.array([[3e38, 3e38, -3e38, 3e38], [-3e38, 3e38, 3e38, 3e38], [1, 2, 3, 4], [0, 1, 0, 0]], np.float32)
    case = _case("{ a = MatMul(x, x) b = MatMul(a, a) y = Sign(b) }", "float[4,4] x", x=x)
    for value in (np.nan, 1, -1):
        assert _judged(case, _with((0, 0), value)) == ""
    fed = np.where(np.abs(x) > 1e38, np.float32(np.inf), x)
    assert _judged(_case("{ a = MatMul(x, x) y = Sign(a) }", "float[4,4] x", x=fed), _with((0, 0), -1)) != ""


@pytest.mark.parametrize(("layout", "direction"), [(0, "forward"), (0, "reverse"), (1, "forward")])
def test_gates_whose_sums_may_overflow_are_open(layout: int, direction: str) -> None:
    """3e38 + 3e38 - ∞ is -∞ or NaN, which closes the gate or not; rows whose sums do not overflow have no choice."""
    x = np.ones((3, 2, 3), np.float32)
    x[1, 0] = 3e38, 3e38, -np.inf
    signature = "float[3,2,3] x, float[1,12,3] w, float[1,12,3] r"
    w = np.ones((1, 12, 3), np.float32)
    case = _case(
        f'{{ y = LSTM<hidden_size = 3, direction = "{direction}", layout = {layout}>(x, w, r) }}',
        signature.replace("float[3,2,3]", "float[2,3,3]") if layout else signature,
        x=x.swapaxes(0, 1).copy() if layout else x,
        w=w,
        r=w,
    )

    def at(time: int, batch: int) -> tuple[int, ...]:
        return (batch, time, 0, 1) if layout else (time, 0, batch, 1)

    last, first = (0, 2) if direction == "reverse" else (2, 0)
    for time, batch, excused in ((1, 0, True), (last, 0, True), (first, 0, False), (1, 1, False)):
        assert (_judged(case, _with(at(time, batch), 0.25)) == "") is excused


def test_sums_that_ieee_fixes_are_not_excused() -> None:
    """x + 1.5·2²³ - 1.5·2²³ rounds: who returns x is wrong, although the sum loses all digits."""
    case = _case("<float m = {12582912}> { a = Add(x, m) y = Sub(a, m) }")
    spread = spread_of(case, case.feeds[0])
    (exact,) = run_numpy(case).outcomes
    assert exact.outputs is not None
    assert difference(case.feeds[0]["x"], exact.outputs[0], spread, 0, exact.outputs[0]) != ""


def test_factors_that_are_merged_err_in_the_last_place() -> None:
    """docs/user/semantics.md says so of constants: the cosine of millions is open then, and not that of one product."""
    x = np.array([0.73, 0.41], np.float32)
    twice, once = "{ a = Mul(x, k) b = Mul(a, m) y = Cos(b) }", "{ b = Mul(x, m) y = Cos(b) }"
    case = _case(f"<float k = {{3}}, float m = {{12582912}}> {twice}", "float[2] x", x=x)
    assert _judged(case, _with((0,), 0.25)) == ""
    assert _judged(_case(f"<float m = {{37748736}}> {once}", "float[2] x", x=x), _with((0,), 0.25)) != ""


def test_cases_are_made_small(planted: Any) -> None:
    """Only the node that is wrong remains, with a program that shows it."""
    case = _case("{ a = Tanh(x) b = Add(a, x) c = Relu(b) d = Mul(c, a) e = Sigmoid(d) y = Add(e, c) }")

    def fails(candidate: Case) -> bool:
        return any(node.op_type == "Mul" for node in candidate.model.graph.node)

    small = shrink(case, fails, 20.0)
    assert small.operators() == "Mul"
    assert "parse_model" in as_code(small)


def test_cases_are_kept_as_files(tmp_path: Any) -> None:
    """A file gives the same model and the same bits, NaN and packed arrays included."""
    import json

    numbers = np.full((20, 4), np.nan, np.float32)
    case = _case("{ y = Relu(x) }", x=numbers)
    write_case(tmp_path / "case.json", case, "about")
    back = case_of(json.loads((tmp_path / "case.json").read_text(encoding="utf-8")))
    assert back.model.graph.node[0].op_type == "Relu"
    assert back.feeds[0]["x"].tobytes() == numbers.tobytes()


@pytest.mark.parametrize(("number", "kind"), [(np.nan, "disputed"), (0.5, "wrong")])
def test_quantised_nan_is_open_where_no_oracle_answers(
    planted: Callable[[Callable[[Any], Any]], None], number: float, kind: str
) -> None:
    """Neither oracle computes a bidirectional RNN of batches first with Relu, so nobody says what becomes of NaN."""
    planted(lambda array: np.where(np.arange(array.size).reshape(array.shape) == 0, array + array.dtype.type(9), array))
    body = """{
        r = RNN<activations = ["Relu", "Relu"], direction = "bidirectional", hidden_size = 1, layout = 1>(v, w, w)
        e = ReduceSum<keepdims = 0>(r) z = Mul(e, n) q = QuantizeLinear(x, s, p) d = DequantizeLinear(q, s, p)
        y = Add(d, z)
    }"""
    signature = "float[2] x, float[2,1,1] v, float[2,1,1] w, float n, float s, int8 p"
    feeds = {"x": np.array([number, 1], np.float32), "v": np.ones((2, 1, 1), np.float32)}
    feeds |= {
        "w": np.ones((2, 1, 1), np.float32),
        "n": np.zeros((), np.float32),
        "s": np.array(0.1, np.float32),
    }
    found = verdict.judge(_case(body, signature, p=np.array(3, np.int8), **feeds), verdict.VARIANTS[:1])
    assert [one.kind for one in found if one.who == "all"] == [kind]


def test_results_that_leave_no_memory_for_a_comparison_are_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attacks run with few addresses, and two large results may take nearly all of them."""

    def full(*arguments: Any) -> list[verdict.Finding]:
        raise MemoryError

    monkeypatch.setattr(attacks, "judge", full)
    monkeypatch.setattr(attacks.AttackSearch, "__post_init__", lambda self: None)
    assert attacks.AttackSearch(say=lambda **data: None).run(1) == {"too large to compare": 1}
