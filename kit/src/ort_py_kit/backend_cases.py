"""ONNX's own backend suite: its cases as models with inputs and expected outputs, and how results are compared.

Five kinds: single operators, made in this process, with their function bodies as models of their own; small graphs and
PyTorch exports, read from the onnx wheel; and the classic image models with constant weights in place of trained ones.
It does not depend on providers: `suites.results` runs them.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from ort_py.dtypes import DataType, data_type_of

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")

UNDETERMINED = frozenset(
    f"test_bernoulli{variant}{body}" for variant in ("", "_double", "_seed") for body in ("", "_expanded")
) | {
    "test_random_multinomial",
    *(f"test_random_{kind}{form}" for kind in ("normal", "uniform") for form in ("", "_double", "_like")),
}
"""Cases whose values come from a random generator that no specification determines: NumPy's own, as it happens to be.

Kind, element type and shape are compared; distribution and seeds are tested with the operator itself."""


_BFLOAT16 = 2.0**-6
"""Relative tolerance of bfloat16, two units in the last place, as in onnx's own runner of the suite."""


@dataclass(frozen=True, slots=True)
class SuiteCase:
    """A case of the suite.

    Attributes:
        name: Its name, unique within its kind.
        data: Folder with the data sets of a file; None where they are in `sets` or, for `real`, are made up.
        sets: Inputs and expected outputs of a model in this process.
        rtol, atol: The case's own tolerances.
    """

    name: str
    kind: str
    source: onnx.ModelProto | Path
    data: Path | None
    sets: tuple[tuple[Any, Any], ...]
    rtol: float
    atol: float

    @property
    def model(self) -> onnx.ModelProto:
        """The model, read now where it is a file."""
        return self.source if isinstance(self.source, onnx.ModelProto) else onnx.load(self.source)

    def data_sets(self) -> Iterator[tuple[Mapping[str, Any], list[Any]]]:
        """Feeds and expected outputs of each data set."""
        if isinstance(self.source, onnx.ModelProto):
            names = [value.name for value in self.source.graph.input]
            for given, expected in self.sets:
                yield dict(zip(names, map(plain_value, given), strict=True)), [plain_value(value) for value in expected]
        elif self.data is not None:
            for folder in sorted(self.data.glob("test_data_set_*")):
                yield _read_data(self.model, folder)
        else:
            yield _ramp_data(self.model, self.source)


@functools.cache
def suite_cases() -> tuple[SuiteCase, ...]:
    """All cases with a model; making those of single operators takes seconds."""
    from onnx.backend.test.loader import DATA_DIR, load_model_tests

    found = []
    for kind in KINDS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # making the cases overflows and casts NaN on purpose
            loaded = load_model_tests(kind=kind)
        for case in loaded:
            source: onnx.ModelProto | Path | None = case.model
            data: Path | None = None
            if source is None and case.model_dir is not None:
                data = Path(case.model_dir)
                source = data / "model.onnx"
            elif source is None and case.url:
                source = Path(DATA_DIR) / "light" / Path(case.url).name
            if source is not None:
                found.append(
                    SuiteCase(case.name, kind, source, data, tuple(case.data_sets or ()), case.rtol, case.atol)
                )
    return tuple(found)


def _read_data(model: onnx.ModelProto, folder: Path) -> tuple[dict[str, Any], list[Any]]:
    def read(values: Any, kind: str) -> list[Any]:
        parts = []
        for index, info in enumerate(values):
            blob = (folder / f"{kind}_{index}.pb").read_bytes()
            parts.append(_parsed(blob, info.type.WhichOneof("value")))
        return parts

    initialized = {initializer.name for initializer in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in initialized]
    feeds = dict(zip((info.name for info in inputs), read(inputs, "input"), strict=True))
    return feeds, read(model.graph.output, "output")


def _parsed(blob: bytes, kind: str) -> Any:
    if kind == "sequence_type":
        return plain_value(onnx.SequenceProto.FromString(blob))
    if kind == "optional_type":
        return plain_value(onnx.OptionalProto.FromString(blob))
    return plain_value(TensorProto.FromString(blob))


def _ramp_data(model: onnx.ModelProto, path: Path) -> tuple[dict[str, Any], list[Any]]:
    """The suite feeds these models a ramp from 0 to 1, and keeps what comes out beside them."""
    initialized = {initializer.name for initializer in model.graph.initializer}
    feeds = {}
    for info in model.graph.input:
        if info.name not in initialized:
            shape = [dim.dim_value or 1 for dim in info.type.tensor_type.shape.dim]
            size = int(np.prod(shape))
            feeds[info.name] = (np.arange(size).reshape(shape) / size).astype(np.float32)
    expected = [path.with_name(f"{path.stem}_output_{index}.pb") for index in range(len(model.graph.output))]
    return feeds, [plain_value(TensorProto.FromString(file.read_bytes())) for file in expected]


def plain_value(value: Any) -> Any:
    """A tensor, sequence or optional of ONNX as sessions give it: arrays (of objects for strings), lists, None."""
    if isinstance(value, TensorProto):
        value = numpy_helper.to_array(value)
    elif isinstance(value, onnx.SequenceProto):
        value = numpy_helper.to_list(value)
    elif isinstance(value, onnx.OptionalProto):
        value = numpy_helper.to_optional(value)
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, list):
        return [plain_value(item) for item in value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "US":
        return value.astype(object)
    return value


class _Judged(Protocol):
    """The attributes of a case that `compare` reads."""

    @property
    def name(self) -> str: ...
    @property
    def rtol(self) -> float: ...
    @property
    def atol(self) -> float: ...


def compare(actual: Any, expected: Any, case: _Judged) -> None:
    """Compare kind, element type, shape and, by the case's own tolerances, values; strings and integers too.

    The values of the cases in `UNDETERMINED` are not compared.

    Args:
        actual: The result: a NumPy array or scalar, a list, None.
    """
    if isinstance(expected, list):
        assert isinstance(actual, list), f"{type(actual).__name__} instead of a sequence"
        assert len(actual) == len(expected), f"{len(actual)} elements instead of {len(expected)}"
        for left, right in zip(actual, expected, strict=True):
            compare(left, right, case)
        return
    if not isinstance(expected, np.ndarray | np.generic):
        assert actual == expected, f"{actual!r} instead of {expected!r}"
        return
    assert isinstance(actual, np.ndarray | np.generic), f"{type(actual).__name__} instead of an array"
    assert actual.shape == expected.shape, f"shape {actual.shape} instead of {expected.shape}"
    assert data_type_of(actual.dtype) == data_type_of(expected.dtype), f"{actual.dtype} instead of {expected.dtype}"
    if case.name in UNDETERMINED:
        return
    if expected.dtype.kind in "OUSb":
        np.testing.assert_array_equal(actual, expected)
        return
    wide = np.complex128 if expected.dtype.kind == "c" else np.int64 if expected.dtype.kind in "iu" else np.float64
    rtol = max(case.rtol, _BFLOAT16) if data_type_of(expected.dtype) == DataType.BFLOAT16 else case.rtol
    np.testing.assert_allclose(actual.astype(wide), expected.astype(wide), rtol=rtol, atol=case.atol)
