"""NumPy, torch and ONNX types of a session's inputs and outputs, for applications that bind torch tensors.

Comes beside sessions and knows only their descriptions of inputs and outputs. torch is imported where a torch type is
asked for, never otherwise.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

from ort_py.errors import ArgumentTypeError, OptionError

if TYPE_CHECKING:
    from ort_py.api.session import InferenceSession

__all__ = ["TypeHelper"]

_ELEMENTS: dict[str, tuple[int, np.dtype[Any]]] = {
    "float": (TensorProto.FLOAT, np.dtype(np.float32)),
    "double": (TensorProto.DOUBLE, np.dtype(np.float64)),
    "float16": (TensorProto.FLOAT16, np.dtype(np.float16)),
    "bfloat16": (TensorProto.BFLOAT16, np.dtype(ml_dtypes.bfloat16)),
    "bool": (TensorProto.BOOL, np.dtype(np.bool_)),
    **{
        name: (getattr(TensorProto, name.upper()), np.dtype(name))
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
}
"""ONNX and NumPy type by the word inside ``tensor(…)``."""

_ORT_NAMES = {"float32": "float", "float64": "double"}
"""The two types that onnxruntime calls otherwise than NumPy and torch do."""


def _element(ort_type: str) -> tuple[int, np.dtype[Any]]:
    name = ort_type.removeprefix("tensor(").removesuffix(")")
    if name not in _ELEMENTS:
        known = ", ".join(f"tensor({one})" for one in _ELEMENTS)
        raise OptionError(
            f"The tensor type '{ort_type}' has no NumPy dtype.", why=f"known are {known}", fix="Use NodeArg.type."
        )
    return _ELEMENTS[name]


def _torch_type(dtype: np.dtype[Any]) -> Any:
    """torch calls types as NumPy does."""
    return getattr(importlib.import_module("torch"), dtype.name)


class TypeHelper:
    """Types of a session's inputs and outputs, and what they are called elsewhere.

    Names are onnxruntime's: an ort type is a `NodeArg.type` such as ``tensor(float)``. Each method raises
    `OptionError`, a ValueError, for a type or a name that it does not know.
    """

    @staticmethod
    def get_input_type(ort_session: InferenceSession, name: str) -> str:
        """Type of an input.

        Raises:
            OptionError: The session has no such input.
        """
        return _named(ort_session.get_inputs(), name, "input")

    @staticmethod
    def get_output_type(ort_session: InferenceSession, name: str) -> str:
        """Type of an output.

        Raises:
            OptionError: The session has no such output.
        """
        return _named(ort_session.get_outputs(), name, "output")

    @staticmethod
    def ort_type_to_numpy_type(ort_type: str) -> type[Any]:
        """The NumPy scalar type, that of `ml_dtypes` for bfloat16; `bool` for truth values."""
        dtype = _element(ort_type)[1]
        return bool if dtype == np.bool_ else dtype.type

    @staticmethod
    def ort_type_to_onnx_type(ort_type: str) -> int:
        return _element(ort_type)[0]

    @staticmethod
    def ort_type_to_torch_type(ort_type: str) -> Any:
        return _torch_type(_element(ort_type)[1])

    @staticmethod
    def numpy_type_to_torch_type(numpy_type: Any) -> Any:
        """The ``torch.dtype`` of a NumPy type."""
        return _torch_type(_known(np.dtype(numpy_type)))

    @staticmethod
    def torch_type_to_numpy_type(torch_type: Any) -> type[Any]:
        """The NumPy scalar type of a ``torch.dtype``."""
        return TypeHelper.ort_type_to_numpy_type(_ort_name(str(torch_type).removeprefix("torch.")))

    @staticmethod
    def get_io_onnx_type_map(ort_session: InferenceSession) -> dict[str, int]:
        """`ort_type_to_onnx_type` of each input and output, by name."""
        return _each(ort_session, TypeHelper.ort_type_to_onnx_type)

    @staticmethod
    def get_io_numpy_type_map(ort_session: InferenceSession) -> dict[str, Any]:
        """`ort_type_to_numpy_type` of each input and output, by name."""
        return _each(ort_session, TypeHelper.ort_type_to_numpy_type)

    @staticmethod
    def get_io_torch_type_map(ort_session: InferenceSession) -> dict[str, Any]:
        """`ort_type_to_torch_type` of each input and output, by name."""
        return _each(ort_session, TypeHelper.ort_type_to_torch_type)


def _ort_name(dtype: str) -> str:
    return f"tensor({_ORT_NAMES.get(dtype, dtype)})"


def _known(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if all(dtype != known for _, known in _ELEMENTS.values()):
        raise ArgumentTypeError(f"torch has no type for NumPy's {dtype}.", fix="Convert the array to a number type.")
    return dtype


def _named(arguments: Any, name: str, kind: str) -> str:
    for argument in arguments:
        if argument.name == name:
            return str(argument.type)
    raise OptionError(
        f"The session has no {kind} '{name}'.", fix=f"Use one of {', '.join(argument.name for argument in arguments)}."
    )


def _each(session: InferenceSession, translated: Callable[[str], Any]) -> dict[str, Any]:
    return {argument.name: translated(argument.type) for argument in (*session.get_inputs(), *session.get_outputs())}
