"""FlexAttention: the reference without graphs, closed forms and sessions with them; types; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ort_py as ort
from ort_py.errors import InvalidArgument
from ort_py_kit.kernel_runner import reference_outputs
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16, FLOATS, run, sample
from ..standin import array_module, to_device, to_host

DOMAIN = "ai.onnx.preview"
ATTRIBUTES = {"scale": st.just(0.3), "softmax_precision": st.sampled_from([1, 11])}
Q = sample((2, 4, 3, 8), np.float32)
K, V = (sample((2, 2, 5, 8), np.float32, seed) for seed in (1, 2))


def flex(*inputs: Any, **arguments: Any) -> Any:
    """The result of one node."""
    return run("FlexAttention", inputs, domain=DOMAIN, **arguments)[0]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 2),
    key_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    lengths=st.tuples(st.integers(1, 5), st.integers(1, 6)),
    attributes=st.fixed_dictionaries(
        {}, optional={"scale": st.just(0.3), "softmax_precision": st.sampled_from([1, 11])}
    ),
    seed=st.integers(0, 99),
)
def test_without_graphs_it_agrees_with_the_reference(
    batch: int, key_heads: int, group: int, lengths: tuple[int, int], attributes: dict[str, Any], seed: int
) -> None:
    """Over grouped heads, lengths, scales and precisions."""
    q = sample((batch, key_heads * group, lengths[0], 4), np.float32, seed)
    k = sample((batch, key_heads, lengths[1], 4), np.float32, seed + 1)
    v = sample((batch, key_heads, lengths[1], 2), np.float32, seed + 2)
    expected = reference_outputs("FlexAttention", [q, k, v], domain=DOMAIN, **attributes)
    assert_close(flex(q, k, v, **attributes), expected[0])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("modified", [False, True])
def test_every_floating_type(dtype: Any, modified: bool) -> None:
    """The result in the type of the inputs, the graphs in float32, or in float64 for float64."""
    seen = []

    def unchanged(matrix: Any) -> list[Any]:
        seen.append(matrix.dtype)
        return [matrix]

    inputs = [x.astype(dtype) for x in (Q, K, V)]
    graphs = {"score_mod": unchanged, "prob_mod": unchanged} if modified else {}
    # A scale whose root is exact: the reference takes the root in float32, for float64 too.
    y = flex(*inputs, scale=0.25, subgraphs=graphs)
    exact = reference_outputs("FlexAttention", [x.astype(np.float64) for x in inputs], domain=DOMAIN, scale=0.25)[0]
    assert_close(y, exact.astype(dtype))
    assert set(seen) <= {np.dtype(np.float64 if dtype == np.float64 else np.float32)}


@pytest.mark.parametrize("precision", [10, 16])
def test_the_graphs_get_the_precision_of_the_softmax(precision: int) -> None:
    """Scores and probabilities are of the type that softmax_precision names."""
    seen = []

    def unchanged(matrix: Any) -> list[Any]:
        seen.append(matrix.dtype)
        return [matrix]

    y = flex(Q, K, V, softmax_precision=precision, subgraphs={"score_mod": unchanged, "prob_mod": unchanged})
    assert seen == [np.dtype(np.float16) if precision == 10 else BF16] * 2
    np.testing.assert_allclose(y, flex(Q, K, V), rtol=0.1, atol=5e-2)


def test_the_graphs_change_scores_and_probabilities() -> None:
    """A mask of scores and a factor on probabilities, against the closed form; what they got is left alone."""
    allowed = np.tri(3, 5, dtype=bool)
    got = []

    def causal(scores: Any) -> list[Any]:
        got.append(scores.copy())
        return [np.where(allowed, scores, np.float32(-np.inf))]

    def doubled(probabilities: Any) -> list[Any]:
        return [probabilities * np.float32(2)]

    y = flex(Q, K, V, scale=0.5, subgraphs={"score_mod": causal, "prob_mod": doubled})
    scores = np.matmul(Q, K.repeat(2, axis=1).swapaxes(2, 3)) * np.float32(0.5)
    assert_close(got[0], scores)
    e = np.where(allowed, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    expected = 2 * np.matmul(e / e.sum(-1, keepdims=True), V.repeat(2, axis=1))
    assert_close(y, expected.astype(np.float32))


def test_graphs_run_in_a_session_and_see_values_around_the_node() -> None:
    """A bias that the outer graph computes is added to the scores by the engine."""
    model = onnx.parser.parse_model(
        """
        <ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview" : 1]>
        main (float[2,4,3,8] q, float[2,2,5,8] k, float[2,2,5,8] v, float[3,5] m) => (float[2,4,3,8] y)
        {
            twice = Add (m, m)
            y = ai.onnx.preview.FlexAttention <score_mod = body (float[2,4,3,5] s) => (float[2,4,3,5] t)
                { t = Add (s, twice) }> (q, k, v)
        }
        """
    )
    mask = sample((3, 5), np.float32, 3)
    session = ort.InferenceSession(model.SerializeToString())
    (y,) = session.run(None, {"q": Q, "k": K, "v": V, "m": mask})
    (expected,) = run("Attention", [Q, K, V, 2 * mask])
    assert_close(y, expected)


def test_it_runs_on_another_array_module() -> None:
    """With graphs and without, on arrays that refuse NumPy."""
    device = [to_device(x) for x in (Q, K, V)]
    for graphs in ({}, {"score_mod": lambda x: [x]}):
        y = flex(*device, xp=array_module, subgraphs=graphs)
        assert_close(to_host(y), flex(Q, K, V))


def test_without_keys_the_result_is_zero() -> None:
    """With a graph, too: there is nothing to weigh."""
    y = flex(Q, K[:, :, :0], V[:, :, :0], subgraphs={"prob_mod": lambda x: [x]})
    np.testing.assert_array_equal(y, np.zeros_like(Q))


@pytest.mark.parametrize(
    ("inputs", "result", "message"),
    [
        ([Q[0], K, V], None, "do not belong together"),
        ([Q, K[:, :, :2], V], None, "do not belong together"),
        ([Q[:, :3], K, V], None, "3 query heads cannot share 2 key heads"),
        ([Q[:, :3], K, V], [], "3 query heads cannot share 2 key heads"),
        ([Q, K, V], [np.zeros((2, 4, 3, 4), np.float32)], r"score_mod gave float \[2, 4, 3, 4\]"),
        ([Q, K, V], [np.zeros((2, 4, 3, 5))], "score_mod gave double"),
        ([Q, K, V], [], "score_mod gave nothing"),
    ],
)
def test_what_does_not_fit_is_refused(inputs: list[Any], result: list[Any] | None, message: str) -> None:
    """Operands, and what a graph gives for what it gets; the message names the node and says what to do."""
    graphs = {} if result is None else {"score_mod": lambda _: result}
    with pytest.raises(InvalidArgument, match=message) as caught:
        flex(*inputs, subgraphs=graphs)
    assert "FlexAttention_under_test" in str(caught.value)
    assert caught.value.fix


def test_a_precision_that_is_no_floating_type_is_refused() -> None:
    """softmax_precision names a type, 7 is int64."""
    with pytest.raises(InvalidArgument, match="softmax_precision is 7"):
        flex(Q, K, V, softmax_precision=7)
