"""Random operators: shape, type, seed and distribution, which is all that is specified; limits and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import InvalidArgument, LimitError

from .oracle import BF16, FLOATS, run
from .standin import StandInArray, array_module, to_device, to_host
from .test_limits import call

FLOATING = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)
BINARY = (
    *FLOATING,
    *(DataType[f"{sign}INT{bits}"] for sign in ("", "U") for bits in (8, 16, 32, 64)),
    DataType.BOOL,
)
MANY = (100, 1000)


@pytest.mark.parametrize("kind", FLOATING, ids=str)
@pytest.mark.parametrize("like", [False, True])
def test_normal(like: bool, kind: DataType) -> None:
    """Mean, deviation and the share within one deviation are those of a normal distribution, in every type."""
    attributes: dict[str, Any] = {"dtype": int(kind), "seed": 1.0, "mean": 2.0, "scale": 3.0}
    if like:
        (y,) = run("RandomNormalLike", [np.zeros(MANY, np.int8)], **attributes)
    else:
        (y,) = run("RandomNormal", [], shape=MANY, **attributes)
    assert y.shape == MANY
    assert y.dtype == numpy_dtype(kind)
    wide = y.astype(np.float64)
    assert abs(wide.mean() - 2) < 0.05
    assert abs(wide.std() - 3) < 0.05
    assert abs(np.mean(np.abs(wide - 2) < 3) - 0.6827) < 0.01


@pytest.mark.parametrize("kind", FLOATING, ids=str)
@pytest.mark.parametrize("like", [False, True])
def test_uniform(like: bool, kind: DataType) -> None:
    """All numbers are in the range, a tenth of them in each tenth, in every type."""
    attributes: dict[str, Any] = {"dtype": int(kind), "seed": 1.0, "low": -1.0, "high": 3.0}
    if like:
        (y,) = run("RandomUniformLike", [np.full(MANY, "", object)], **attributes)
    else:
        (y,) = run("RandomUniform", [], shape=MANY, **attributes)
    assert y.shape == MANY
    assert y.dtype == numpy_dtype(kind)
    shares, _ = np.histogram(y.astype(np.float64), 10, (-1, 3))
    assert shares.sum() == y.size
    assert np.abs(shares / y.size - 0.1).max() < 0.01


@pytest.mark.parametrize("op_type", ["RandomNormal", "RandomUniform"])
@pytest.mark.parametrize("opset", [1, 22])
def test_defaults(opset: int, op_type: str) -> None:
    """float32, around 0 with deviation 1 or between 0 and 1; both versions."""
    (y,) = run(op_type, [], opset=opset, shape=(50, 200))
    assert y.dtype == np.float32
    assert abs(y.mean() - (0 if op_type == "RandomNormal" else 0.5)) < 0.05
    assert abs(y.std() - (1 if op_type == "RandomNormal" else 12**-0.5)) < 0.05


@pytest.mark.parametrize("op_type", ["RandomNormalLike", "RandomUniformLike", "Bernoulli"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_type_is_the_inputs_by_default(dtype: Any, op_type: str) -> None:
    """Without the attribute the type is copied, as the shape is; scalars and empty tensors too."""
    for shape in ((2, 3), (), (0, 4)):
        (y,) = run(op_type, [np.zeros(shape, dtype)])
        assert (y.shape, y.dtype) == (shape, dtype)


_SEEDED: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("RandomNormal", [], {"shape": (20,)}),
    ("RandomUniform", [], {"shape": (20,)}),
    ("RandomNormalLike", [np.zeros(20, np.float32)], {}),
    ("RandomUniformLike", [np.zeros(20, np.float64)], {}),
    ("Bernoulli", [np.full(60, 0.5, np.float32)], {}),
    ("Multinomial", [np.zeros((1, 9), np.float32)], {"sample_size": 20}),
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes"), _SEEDED, ids=[case[0] for case in _SEEDED])
def test_a_seed_repeats(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    """One seed gives one result; another seed, a fraction of one, and none give others."""
    first, again, other, fraction = (run(op_type, inputs, seed=seed, **attributes)[0] for seed in (3.0, 3.0, 4.0, 3.5))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
    assert np.any(first != fraction)
    unseeded = [run(op_type, inputs, **attributes)[0] for _ in range(2)]
    assert np.any(unseeded[0] != unseeded[1])


@pytest.mark.parametrize(("op_type", "inputs", "attributes"), _SEEDED, ids=[case[0] for case in _SEEDED])
def test_the_device_has_no_part_in_the_numbers(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    """The stand-in array module gets the numbers that NumPy gets."""
    (host,) = run(op_type, inputs, seed=5.0, **attributes)
    (device,) = run(op_type, [to_device(value) for value in inputs], xp=array_module, seed=5.0, **attributes)
    assert isinstance(device, StandInArray)
    np.testing.assert_array_equal(to_host(device), host)


@pytest.mark.parametrize("kind", BINARY, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bernoulli(dtype: Any, kind: DataType) -> None:
    """Each place is 1 with its own probability and else 0, in every type; 0 never and 1 always."""
    chances = np.tile(np.array([0, 0.125, 0.5, 0.875, 1], dtype), (20_000, 1))
    (y,) = run("Bernoulli", [chances], dtype=int(kind), seed=2.0, opset=15 if dtype != BF16 else 22)
    assert y.shape == chances.shape
    assert y.dtype == numpy_dtype(kind)
    wide = y.astype(np.float64)
    assert np.isin(wide, (0, 1)).all()
    assert np.abs(wide.mean(axis=0) - [0, 0.125, 0.5, 0.875, 1]).max() < 0.02
    assert wide[:, 0].max() == 0
    assert wide[:, 4].min() == 1


@pytest.mark.parametrize("chance", [-0.1, 1.5, np.nan])
def test_what_is_no_probability(chance: float) -> None:
    """The specification allows [0, 1] alone."""
    with pytest.raises(InvalidArgument, match=r"a probability outside \[0, 1\]") as caught:
        run("Bernoulli", [np.array([0.5, chance], np.float32)])
    assert caught.value.fix


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kind", [None, DataType.INT32, DataType.INT64], ids=str)
def test_multinomial(kind: DataType | None, dtype: Any) -> None:
    """Each row draws from its own distribution; the probabilities need not be normalised; int32 by default."""
    chances = np.array([[0.5, 0.25, 0.25, 0], [0, 0, 0, 1], [0, 0.125, 0, 0.875]])
    with np.errstate(divide="ignore"):
        logs = (np.log(chances) + np.array([[3], [-8], [0]])).astype(dtype)
    attributes = {} if kind is None else {"dtype": int(kind)}
    (y,) = run("Multinomial", [logs], sample_size=20_000, seed=1.0, opset=7 if dtype != BF16 else 22, **attributes)
    assert y.shape == (3, 20_000)
    assert y.dtype == (np.int64 if kind == DataType.INT64 else np.int32)
    shares = np.stack([np.bincount(row, minlength=4) for row in y]) / 20_000
    assert np.abs(shares - chances).max() < 0.02
    assert not shares[chances == 0].any()


def test_multinomial_of_many_rows() -> None:
    """One search serves all rows and never leaves its row: where one class is possible, it is the one drawn."""
    only = np.random.default_rng(0).integers(0, 7, 5000)
    logs = np.where(np.arange(7) == only[:, None], 0, -np.inf).astype(np.float32)
    (y,) = run("Multinomial", [logs], sample_size=8)
    np.testing.assert_array_equal(y, np.repeat(only[:, None], 8, axis=1))


def test_multinomial_without_rows() -> None:
    assert run("Multinomial", [np.zeros((0, 3), np.float32)], sample_size=5)[0].shape == (0, 5)


@pytest.mark.parametrize(
    ("logs", "attributes", "text"),
    [
        (np.zeros(3, np.float32), {}, "Multinomial draws 1 samples"),
        (np.zeros((1, 3), np.float32), {"sample_size": 0}, "Multinomial draws 0 samples"),
        (np.zeros((1, 0), np.float32), {}, "cannot draw from every row"),
        (np.full((2, 3), -np.inf, np.float32), {}, "cannot draw from every row"),
        (np.array([[0, np.nan]], np.float32), {}, "cannot draw from every row"),
        (np.array([[0, np.inf]], np.float32), {}, "cannot draw from every row"),
        (
            np.zeros((1, 3), np.float32),
            {"dtype": int(DataType.FLOAT)},
            "Multinomial cannot make elements of type float",
        ),
    ],
    ids=["rank", "none", "no class", "impossible", "nan", "inf", "type"],
)
def test_multinomial_refuses(logs: Any, attributes: dict[str, int], text: str) -> None:
    """Each is refused with what would be right."""
    with pytest.raises(InvalidArgument, match=text) as caught:
        run("Multinomial", [logs], **attributes)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "text"),
    [
        ("RandomNormal", [], {"shape": (2, -1)}, r"The shape \[2, -1\] has a negative size"),
        ("RandomUniform", [], {"shape": (-3,)}, r"The shape \[-3\] has a negative size"),
        ("RandomNormal", [], {"shape": (2,), "scale": -1.0}, "The standard deviation 'scale' is -1.0"),
        ("RandomUniform", [], {"shape": (2,), "low": 2.0, "high": 1.0}, "The range from 2.0 to 1.0 is empty"),
        ("RandomNormal", [], {"shape": (2,), "dtype": 6}, "RandomNormal cannot make elements of type int32"),
        ("RandomUniformLike", [np.zeros(2, np.int32)], {}, "RandomUniformLike cannot make elements of type int32"),
        ("RandomNormalLike", [np.zeros(2, bool)], {}, "RandomNormalLike cannot make elements of type bool"),
        ("Bernoulli", [np.zeros(2, np.float32)], {"dtype": 8}, "Bernoulli cannot make elements of type string"),
    ],
)
def test_wrong_attributes(op_type: str, inputs: list[Any], attributes: dict[str, Any], text: str) -> None:
    """Each is refused with what would be right."""
    with pytest.raises(InvalidArgument, match=text) as caught:
        run(op_type, inputs, **attributes)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("RandomNormal", [], {"shape": (1 << 40,)}),
        ("RandomUniform", [], {"shape": (1 << 40,)}),
        ("Multinomial", [np.zeros((2, 2), np.float32)], {"sample_size": 1 << 40}),
    ],
)
def test_sizes_from_attributes_are_announced(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    """Nothing is drawn that is too large."""
    with pytest.raises(LimitError, match="too large"):
        call(op_type, inputs, attributes, opset=22)
