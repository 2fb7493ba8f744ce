"""Made-up inputs: a value for each declared type and shape, so that a model can be tried without data.

Values are harmless rather than telling: floats lie in [0, 1), integers are 0 or 1, so that token numbers, masks and
lengths are valid in nearly every model. Same seed, same values.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ort_py.dtypes import (
    DataType,
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
    numpy_dtype,
    parse_value_type,
)
from ort_py.engine.metadata import NodeArg
from ort_py.errors import InvalidArgument, Location
from ort_py.lazy_dataclass import dataclass

MODES = ("random", "zeros", "ones")
SEQUENCE_LENGTH = 2


@dataclass(frozen=True, slots=True)
class InputRecipe:
    """The recipe for generated inputs.

    Attributes:
        mode: ``random``, ``zeros`` or ``ones``.
        dims: Size of each symbolic dimension, by name; 1 for others.
        shapes: Whole shape of an input, by its name, instead of what is declared.
    """

    mode: str = "random"
    seed: int = 0
    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Generated:
    """A made-up input.

    Attributes:
        assumed: Guesses about its shape, in words; empty where everything was declared.
    """

    value: Any
    assumed: str = ""


def generate(argument: NodeArg, recipe: InputRecipe) -> Generated:
    """Make up a value for an input.

    Raises:
        InvalidArgument: Its type is one nothing can be made up for.
    """
    value_type = parse_value_type(argument.type) if argument.type else None
    # Each input has its own stream, so that leaving one out does not change the others.
    rng = np.random.default_rng([recipe.seed, zlib.crc32(argument.name.encode())])
    shape, assumed = _shape(argument, recipe)
    return Generated(_value(value_type, shape, recipe.mode, rng, argument.name), assumed)


def _shape(argument: NodeArg, recipe: InputRecipe) -> tuple[tuple[int, ...], str]:
    given = recipe.shapes.get(argument.name)
    if given is not None:
        return given, ""
    if not argument.rank_known:
        return (1,), "with shape [1], because its rank is unknown"
    sizes: list[int] = []
    guesses: list[str] = []
    for axis, dim in enumerate(argument.shape):
        if isinstance(dim, int):
            sizes.append(dim)
        elif isinstance(dim, str) and dim in recipe.dims:
            sizes.append(recipe.dims[dim])
        else:
            sizes.append(1)
            guesses.append(f"'{dim}' = 1" if isinstance(dim, str) else f"axis {axis} = 1")
    return tuple(sizes), f"with {', '.join(guesses)}" if guesses else ""


def _value(value_type: ValueType | None, shape: Sequence[int], mode: str, rng: np.random.Generator, name: str) -> Any:
    if isinstance(value_type, TensorType):
        return _tensor(value_type.data_type, shape, mode, rng)
    if isinstance(value_type, OptionalType):
        return _value(value_type.element, shape, mode, rng, name)
    if isinstance(value_type, SequenceType):
        return [_value(value_type.element, shape, mode, rng, name) for _ in range(SEQUENCE_LENGTH)]
    if isinstance(value_type, MapType):
        key: Any = "key" if value_type.key is DataType.STRING else 0
        item = _value(value_type.value, (), mode, rng, name)
        return {key: item.item() if isinstance(item, np.ndarray) else item}
    raise InvalidArgument(
        f"No value can be generated for input '{name}' of type '{value_type or 'unknown'}'.",
        where=Location(value=name),
        fix=f"Pass a value; on the command line with --input {name}=FILE.npy.",
    )


def _tensor(data_type: DataType, shape: Sequence[int], mode: str, rng: np.random.Generator) -> Any:
    if data_type is DataType.STRING:
        flat = np.empty(int(np.prod(shape, dtype=np.int64)), object)
        constant = {"zeros": "", "ones": "1"}.get(mode)
        flat[:] = [f"text {rng.integers(100)}" if constant is None else constant for _ in range(flat.size)]
        return flat.reshape(shape)
    dtype = numpy_dtype(data_type)
    if mode != "random":
        return np.full(shape, 0 if mode == "zeros" else 1).astype(dtype)
    if data_type in (DataType.UINT8, DataType.INT8):
        bounds = np.iinfo(dtype)  # raw pixels and samples, which use the whole range
        return rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)
    if data_type is DataType.BOOL or dtype.kind in "iu" or data_type.onnx_name.startswith(("int", "uint")):
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.random(shape).astype(dtype)
