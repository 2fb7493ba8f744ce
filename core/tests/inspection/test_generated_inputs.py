"""Made-up inputs for every declared type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py import InvalidArgument, NodeArg
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.inspection.generated_inputs import InputRecipe, generate

NUMERIC = [t for t in DataType if t not in (DataType.UNDEFINED, DataType.STRING, DataType.FLOAT8E8M0)]


def made(type_text: str, shape: list[Any] | None = None, **recipe: Any) -> Any:
    """A made-up value."""
    argument = NodeArg("x", type_text, [] if shape is None else shape, shape is not None)
    return generate(argument, InputRecipe(**recipe)).value


@pytest.mark.parametrize("mode", ["random", "zeros", "ones"])
@pytest.mark.parametrize("data_type", NUMERIC, ids=lambda data_type: data_type.onnx_name)
def test_every_element_type_in_every_mode(data_type: DataType, mode: str) -> None:
    """The declared type and shape, whatever the mode."""
    value = made(f"tensor({data_type.onnx_name})", [2, 3], mode=mode)
    assert (value.dtype, value.shape) == (numpy_dtype(data_type), (2, 3))


@pytest.mark.parametrize(("mode", "expected"), [("zeros", 0), ("ones", 1)])
def test_constant_modes(mode: str, expected: int) -> None:
    """Zeros are zeros, ones are ones."""
    assert made("tensor(float)", [4], mode=mode).tolist() == [expected] * 4


def test_floats_lie_between_zero_and_one() -> None:
    """Random floats are like scaled pixels."""
    value = made("tensor(float)", [1000])
    assert 0 <= value.min() < 0.1
    assert 0.9 < value.max() < 1


@pytest.mark.parametrize("name", ["int64", "int32", "uint32", "int4"])
def test_integers_are_zero_or_one(name: str) -> None:
    """Valid as token numbers, masks and lengths alike."""
    assert set(made(f"tensor({name})", [100]).astype(int).tolist()) == {0, 1}


def test_bytes_use_their_range() -> None:
    assert made("tensor(uint8)", [1000]).max() > 200


def test_same_seed_same_values() -> None:
    """Values depend on the seed and the input's name only."""
    assert np.array_equal(made("tensor(float)", [5], seed=3), made("tensor(float)", [5], seed=3))
    assert not np.array_equal(made("tensor(float)", [5], seed=3), made("tensor(float)", [5], seed=4))


def test_symbolic_dimensions_have_sizes() -> None:
    """A named dimension takes its size; others are 1, and are said to be."""
    argument = NodeArg("x", "tensor(float)", ["N", "M", None, 3])
    result = generate(argument, InputRecipe(dims={"N": 4}))
    assert result.value.shape == (4, 1, 1, 3)
    assert result.assumed == "with 'M' = 1, axis 2 = 1"


def test_whole_shape() -> None:
    """A shape given for an input beats what is declared."""
    result = generate(NodeArg("x", "tensor(float)", ["N", 3]), InputRecipe(shapes={"x": (2, 2, 2)}))
    assert result.value.shape == (2, 2, 2)
    assert result.assumed == ""


def test_unknown_rank() -> None:
    """Without a rank it is one element, and that is said."""
    result = generate(NodeArg("x", "tensor(float)", [], rank_known=False), InputRecipe())
    assert result.value.shape == (1,)
    assert "rank is unknown" in result.assumed


def test_scalar() -> None:
    assert made("tensor(float)", []).shape == ()


@pytest.mark.parametrize(("mode", "expected"), [("zeros", ""), ("ones", "1"), ("random", "text ")])
def test_strings(mode: str, expected: str) -> None:
    """Texts are texts in an object array."""
    value = made("tensor(string)", [2], mode=mode)
    assert value.dtype == object
    assert all(text.startswith(expected) for text in value)


def test_sequence() -> None:
    value = made("seq(tensor(float))")
    assert [item.dtype for item in value] == [np.float32] * 2


def test_optional_has_a_value() -> None:
    """An optional is made like what is in it."""
    assert made("optional(tensor(float))", [2]).shape == (2,)


@pytest.mark.parametrize(("text", "expected"), [("map(string,tensor(float))", "key"), ("map(int64,tensor(float))", 0)])
def test_map(text: str, expected: Any) -> None:
    (key,) = made(text)
    assert key == expected


def test_sparse_tensor_is_refused() -> None:
    """An input that cannot be generated is refused with advice."""
    with pytest.raises(InvalidArgument, match="No value can be generated for input 'x'") as caught:
        made("sparse_tensor(float)", [2])
    assert "--input x=FILE.npy" in caught.value.fix
