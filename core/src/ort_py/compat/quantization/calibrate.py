"""Ranges of tensors, found by running a model on examples: the data classes, and the interface of the examples.

The calibrators that find ranges are not there yet. Ranges are saved as JSON in the form onnxruntime reads. It does not
depend on graphs.
"""

from __future__ import annotations

import abc
import json
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from enum import Enum
from pathlib import Path
from typing import Any, Self

import numpy as np

from ort_py.compat.not_yet import missing_class, missing_function

__all__ = [
    "CalibraterBase",
    "CalibrationDataReader",
    "CalibrationMethod",
    "MinMaxCalibrater",
    "TensorData",
    "TensorsData",
    "create_calibrator",
    "load_tensors_data",
    "save_tensors_data",
]

_RANGES = "Find ranges with onnxruntime's calibrators, or run the model here with its inner tensors as outputs."

CalibraterBase = missing_class("quantization.CalibraterBase", _RANGES)
MinMaxCalibrater = missing_class("quantization.MinMaxCalibrater", _RANGES)
create_calibrator = missing_function("quantization.create_calibrator", _RANGES)


class CalibrationMethod(Enum):
    """The way in which a range is derived from the values seen."""

    MinMax = 0
    Entropy = 1
    Percentile = 2
    Distribution = 3


class CalibrationDataReader(abc.ABC):
    """Examples to run a model on, one after the other."""

    @classmethod
    def __subclasshook__(cls, subclass: type) -> bool:
        return callable(getattr(subclass, "get_next", None)) or NotImplemented

    @abc.abstractmethod
    def get_next(self) -> Mapping[str, Any] | None:
        """The next example as a feed, None after the last."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Mapping[str, Any]:
        found = self.get_next()
        if found is None:
            raise StopIteration
        return found

    def __len__(self) -> int:
        """Number of examples; a subclass that can tell says so.

        Raises:
            NotImplementedError: It does not.
        """
        raise NotImplementedError(f"{type(self).__name__} does not know how many examples it has.")

    def set_range(self, start_index: int, end_index: int) -> None:
        """Give only the examples from `start_index` to before `end_index`.

        Raises:
            NotImplementedError: The subclass cannot.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot give a range of its examples.")


class TensorData:
    """Known facts about the values of one tensor.

    Args:
        **kwargs: `avg`, `std`, `lowest`, `highest`, `hist_edges`: arrays of float16 or float32; `hist`, `bins`.

    Raises:
        ValueError: Another name, or no such array.
    """

    _FLOATS = frozenset({"avg", "std", "lowest", "highest", "hist_edges"})
    _ALLOWED = _FLOATS | {"hist", "bins"}

    def __init__(self, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            if name not in self._ALLOWED:
                raise ValueError(f"TensorData has no {name!r}; there are {', '.join(sorted(self._ALLOWED))}.")
            if name in self._FLOATS and getattr(value, "dtype", None) not in (np.float16, np.float32):
                raise ValueError(f"{name} must be an array of float16 or float32, not {value!r}.")
        self._values = kwargs

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"This TensorData has no {name!r}; it has {', '.join(values) or 'nothing'}.")

    @property
    def range_value(self) -> tuple[Any, Any]:
        """Lowest and highest value.

        Raises:
            AttributeError: They are not known.
        """
        return self.lowest, self.highest

    @property
    def avg_std(self) -> tuple[Any, Any]:
        """Mean and standard deviation.

        Raises:
            AttributeError: They are not known.
        """
        return self.avg, self.std

    def to_dict(self) -> dict[str, Any]:
        """Known facts by name, with the class's name under ``CLS``."""
        return {**self._values, "CLS": type(self).__name__}

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> TensorData:
        """The reverse of `to_dict`, also after JSON."""
        found = {name: _array(value) for name, value in d.items() if name != "CLS"}
        return cls(
            **{
                name: np.array(value, np.float32) if name in cls._FLOATS and isinstance(value, int | float) else value
                for name, value in found.items()
            }
        )


class TensorsData:
    """Known facts about the values of several tensors, by their names.

    Args:
        calibration_method: Method by which the range was found.
        data: A `TensorData` a tensor; or (lowest, highest), or (lowest, highest, hist, bins).

    Raises:
        TypeError: Something else.
    """

    def __init__(self, calibration_method: CalibrationMethod, data: Mapping[str, TensorData | tuple[Any, ...]]) -> None:
        self.calibration_method = calibration_method
        self.data: dict[str, TensorData] = {}
        for name, value in data.items():
            if not isinstance(name, str):
                raise TypeError(f"Names of tensors must be strings, not {name!r}.")
            self.data[name] = self._as_tensor_data(name, value)

    def _as_tensor_data(self, name: str, value: Any) -> TensorData:
        if isinstance(value, TensorData):
            return value
        if isinstance(value, tuple) and len(value) == 2 and self.calibration_method == CalibrationMethod.MinMax:
            return TensorData(lowest=value[0], highest=value[1])
        if isinstance(value, tuple) and len(value) == 4:
            return TensorData(lowest=value[0], highest=value[1], hist=value[2], bins=value[3])
        raise TypeError(f"{name}: it must be a TensorData or a tuple of two or four values, not {value!r}.")

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __contains__(self, key: object) -> bool:
        return key in self.data

    def __getitem__(self, key: str) -> TensorData:
        return self.data[key]

    def __setitem__(self, key: str, value: TensorData) -> None:
        if key not in self.data:
            raise RuntimeError(f"Nothing is known about {key!r}, so it cannot be replaced.")
        self.data[key] = value

    def keys(self) -> KeysView[str]:
        return self.data.keys()

    def values(self) -> ValuesView[TensorData]:
        """Known facts in the order of the names."""
        return self.data.values()

    def items(self) -> ItemsView[str, TensorData]:
        return self.data.items()

    def to_dict(self) -> dict[str, Any]:
        """All of it, with the class's name under ``CLS``."""
        return {"CLS": type(self).__name__, "data": self.data, "calibration_method": self.calibration_method}

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> TensorsData:
        """The reverse of `to_dict`, also after JSON."""
        method = d["calibration_method"]
        if isinstance(method, Mapping):
            method = CalibrationMethod[method["value"].rpartition(".")[2]]
        return cls(
            method,
            {
                name: value if isinstance(value, TensorData) else TensorData.from_dict(value)
                for name, value in d["data"].items()
            },
        )


def save_tensors_data(tensors_data: TensorsData, path: str | Path, *, smooth_quant: bool = False) -> None:
    """Write ranges to a file as JSON.

    Args:
        smooth_quant: Noted in the file: the model's weights were smoothed before.
    """
    content = {**tensors_data.to_dict(), "smooth_quant": smooth_quant}
    Path(path).write_text(json.dumps(content, default=_plain), encoding="utf-8")


def load_tensors_data(path: str | Path) -> TensorsData:
    """Read a file written by `save_tensors_data`.

    Raises:
        ValueError: The file is not JSON of this form.
    """
    return TensorsData.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))


def _plain(value: Any) -> Any:
    if isinstance(value, TensorData):
        return value.to_dict()
    if isinstance(value, np.ndarray | np.generic):
        return {"CLS": "numpy.array", "dtype": str(value.dtype), "data": value.tolist()}
    if isinstance(value, CalibrationMethod):
        return {"CLS": "CalibrationMethod", "value": str(value)}
    raise TypeError(f"{type(value).__name__} cannot be written as JSON.")


def _array(value: Any) -> Any:
    if isinstance(value, Mapping) and value.get("CLS") == "numpy.array":
        return np.array(value["data"], np.dtype(value["dtype"]))
    return value
