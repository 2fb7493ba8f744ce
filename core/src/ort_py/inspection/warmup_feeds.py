"""The feeds of a warm-up: from shapes, sizes of dimensions and real values to one feed for each combination.

Everything is checked against what the model declares before anything runs. It does not depend on sessions or time.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.dtypes import DataType, OptionalType, TensorType, ValueType, numpy_dtype, parse_value_type
from ort_py.engine.metadata import NodeArg
from ort_py.errors import ArgumentTypeError, InvalidArgument, Location
from ort_py.lazy_dataclass import dataclass
from ort_py.suggestions import did_you_mean
from ort_py.values.ort_value import OrtValue


@dataclass(frozen=True, slots=True)
class WarmupFeed:
    """One feed.

    Attributes:
        values: By input name.
        shapes: Shape of each tensor, by input name.
        made_up: Whether any of the values is zeros.
    """

    values: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    made_up: bool


def warmup_feeds(
    inputs: Sequence[NodeArg],
    overridable: Sequence[NodeArg],
    shapes: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
) -> list[WarmupFeed]:
    """All feeds that `InferenceSession.warmup` runs.

    Args:
        inputs: Inputs that must be fed.
        overridable: Initializers that may be fed; left alone unless they are named.
        shapes: As given to `warmup`.

    Raises:
        ArgumentTypeError: They are neither a mapping nor a list of mappings.
    """
    given = [shapes if shapes is not None else {}] if shapes is None or isinstance(shapes, Mapping) else shapes
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(one, Mapping) for one in given):
        raise ArgumentTypeError(
            f"The shapes to warm up with must be a mapping or a list of mappings, not {type(shapes).__name__}.",
            fix='Pass e.g. {"batch": [1, 8]} or [{"x": (1, 3, 224, 224)}].',
        )
    return [feed for one in given for feed in _feeds(inputs, overridable, one)]


def _feeds(inputs: Sequence[NodeArg], overridable: Sequence[NodeArg], given: Mapping[str, Any]) -> Iterator[WarmupFeed]:
    arguments = {argument.name: argument for argument in (*inputs, *overridable)}
    symbols = {dim for argument in arguments.values() for dim in argument.shape if isinstance(dim, str)}
    for name in given:
        if name not in arguments and name not in symbols:
            raise _unknown(name, arguments, symbols)
    wanted = [argument for argument in arguments.values() if argument in inputs or argument.name in given]
    values = {name: value for name, value in given.items() if name in arguments and _is_value(arguments[name], value)}
    plain = {name: value for name, value in given.items() if name in arguments and name not in values}
    partial = {name: _partial_shape(arguments[name], value) for name, value in plain.items()}
    sizes = {name: _sizes(name, value) for name, value in given.items() if name not in arguments}
    for chosen in itertools.product(*sizes.values()):
        dims = dict(zip(sizes, chosen, strict=True))
        for argument in wanted:
            if argument.name in values:
                _learn(dims, argument, getattr(_bare(values[argument.name]), "shape", ()), agree=False)
            elif argument.name in partial:
                _learn(dims, argument, partial[argument.name], agree=True)
        yield _feed(wanted, values, partial, dims)


def _feed(
    wanted: Sequence[NodeArg],
    values: Mapping[str, Any],
    partial: Mapping[str, tuple[int | str | None, ...]],
    dims: Mapping[str, int],
) -> WarmupFeed:
    feed: dict[str, Any] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for argument in wanted:
        name = argument.name
        if name in values:
            feed[name] = values[name]
        elif isinstance(parse_value_type(argument.type), OptionalType) and name not in partial:
            continue  # absent, as in a run that does not feed it
        elif not isinstance(_tensor_type(argument), TensorType):
            raise InvalidArgument(
                f"The input '{name}' cannot be generated.",
                where=Location(value=name),
                why=f"it is declared {argument.type}, which cannot be generated from a shape",
                fix=f'Pass a value as you will feed it: {{"{name}": …}}.',
            )
        else:
            feed[name] = _zeros(argument, _whole_shape(argument, partial.get(name), dims))
        if hasattr(bare := _bare(feed[name]), "shape"):
            shapes[name] = tuple(bare.shape)
    return WarmupFeed(feed, shapes, len(values) < len(feed))


def _is_value(argument: NodeArg, value: Any) -> bool:
    """Return whether something is fed as it is, and no shape: always where a shape says nothing about the input."""
    return _has_content(value) or not isinstance(_tensor_type(argument), TensorType)


def _has_content(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_content, value))
    # NumPy's numbers have an __array__ too, and are sizes.
    return isinstance(value, OrtValue) or (
        not isinstance(value, np.generic) and (hasattr(value, "__array__") or hasattr(value, "__dlpack__"))
    )


def _bare(value: Any) -> Any:
    return value.value if isinstance(value, OrtValue) else value


def _tensor_type(argument: NodeArg) -> ValueType | None:
    declared = parse_value_type(argument.type)
    return declared.element if isinstance(declared, OptionalType) else declared


def _partial_shape(argument: NodeArg, value: Any) -> tuple[int | str | None, ...]:
    """A shape as it was given: sizes, and names of dimensions whose size is given elsewhere."""
    where = Location(value=argument.name)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidArgument(
            f"The input '{argument.name}' cannot be warmed up with {value!r}.",
            where=where,
            why=f"it is declared {argument.type}{argument.shape}",
            fix="Give its shape, e.g. (1, 3, 224, 224), or a value as you will feed it.",
        )
    shape = tuple(item if isinstance(item, str) or item is None else _size(argument.name, item) for item in value)
    declared = argument.shape
    if argument.rank_known and len(shape) != len(declared):
        raise InvalidArgument(
            f"The input '{argument.name}' has {len(declared)} dimensions, {len(shape)} are given.",
            where=where,
            why=f"{list(shape)} is given, {declared} is declared",
            fix="Give a size for each dimension.",
        )
    for axis, (found, said) in enumerate(zip(shape, declared, strict=False)):
        if isinstance(said, int) and found not in (said, None):
            raise InvalidArgument(
                f"The input '{argument.name}' has size {said} along axis {axis}, {found} is given.",
                where=where,
                why=f"{list(shape)} is given, {declared} is declared",
                fix=f"Give {said} there.",
            )
    return shape


def _sizes(name: str, value: Any) -> list[int]:
    several = isinstance(value, Sequence | set | frozenset | range) and not isinstance(value, str)
    return [_size(name, item) for item in (value if several else [value])]


def _size(name: str, value: Any) -> int:
    try:
        size = operator.index(value)
    except TypeError:
        size = -1
    if size < 0 or isinstance(value, bool):
        raise InvalidArgument(
            f"A size of '{name}' is {value!r}.",
            where=Location(value=name),
            why="sizes are whole numbers, 0 or more",
            fix="Give a whole number.",
        )
    return size


def _learn(dims: dict[str, int], argument: NodeArg, shape: Sequence[Any], *, agree: bool) -> None:
    """Take sizes of symbolic dimensions from a shape: other inputs have the same ones, unless values show otherwise."""
    for said, found in zip(argument.shape, shape, strict=False):
        if not isinstance(said, str) or not isinstance(found, int):
            continue
        known = dims.setdefault(said, found)
        if agree and known != found:
            raise InvalidArgument(
                f"The dimension '{said}' cannot be {known} and {found} at once.",
                where=Location(value=argument.name),
                why=f"'{argument.name}' has it, declared {argument.shape} and given as {list(shape)}",
                fix="Pass one size. If the model really takes both, pass arrays instead of shapes.",
            )


def _whole_shape(
    argument: NodeArg, partial: Sequence[int | str | None] | None, dims: Mapping[str, int]
) -> tuple[int, ...]:
    if partial is None and not argument.rank_known:
        raise InvalidArgument(
            f"The input '{argument.name}' has no shape.",
            where=Location(value=argument.name),
            why="the model does not declare how many dimensions it has",
            fix=f'Give one: {{"{argument.name}": (…)}}.',
        )
    shape: list[int] = []
    declared = argument.shape if argument.rank_known else [None] * len(partial or ())
    for axis, said in enumerate(declared):
        wish = partial[axis] if partial is not None else None
        dim = said if wish is None else wish
        size = dims.get(dim) if isinstance(dim, str) else dim
        if size is None:
            what = f"the dimension '{dim}'" if dim is not None else f"axis {axis}"
            raise InvalidArgument(
                f"The size of {what} of the input '{argument.name}' is not given.",
                where=Location(value=argument.name),
                why=f"it is declared {argument.type}{argument.shape}",
                fix=f'Give it, e.g. {{"{dim}": [1, 8]}}.' if dim is not None else "Give the whole shape of this input.",
            )
        shape.append(size)
    return tuple(shape)


def _zeros(argument: NodeArg, shape: tuple[int, ...]) -> Any:
    declared = _tensor_type(argument)
    assert isinstance(declared, TensorType)
    if declared.data_type is DataType.STRING:
        return np.full(shape, "", object)
    return np.zeros(shape, numpy_dtype(declared.data_type))


def _unknown(name: str, arguments: Mapping[str, NodeArg], symbols: set[str]) -> InvalidArgument:
    known = [*arguments, *sorted(symbols)]
    return InvalidArgument(
        f"The model has no input and no symbolic dimension '{name}'.",
        where=Location(value=name),
        why=f"its inputs are {', '.join(map(repr, arguments)) or 'none'},"
        f" its symbolic dimensions {', '.join(map(repr, sorted(symbols))) or 'none'}",
        fix=did_you_mean(name, known) or "Use one of these.",
    )
