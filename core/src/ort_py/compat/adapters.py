"""LoRA adapters: parameters by name that replace initializers of a model in single runs, and their files.

`AdapterFormat` makes and reads files, `LoraAdapter` is what `RunOptions.add_active_adapter` takes. After
`adapter_file`, which knows the bytes; a run gets the parameters as feeds of overridable initializers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ort_py.compat.adapter_file import FORMAT_VERSION, AdapterContent, read_adapter_bytes, write_adapter_bytes
from ort_py.errors import ArgumentTypeError, Location, UsageError
from ort_py.files import read_regular
from ort_py.values.ort_value import OrtValue


class AdapterFormat:
    """The content of an adapter's file.

    Args:
        adapter: Another one to share the content of, None for an empty one.
    """

    def __init__(self, adapter: AdapterFormat | None = None) -> None:
        self._content: AdapterContent = (
            AdapterContent(FORMAT_VERSION, 0, 0, {}) if adapter is None else adapter._content
        )

    @staticmethod
    def read_adapter(file_path: str | os.PathLike[str]) -> AdapterFormat:
        """Read a file.

        Raises:
            UsageError: It is not there, or no adapter; a builtin RuntimeError too.
        """
        made = AdapterFormat()
        made._content = _read(file_path)
        return made

    def export_adapter(self, file_path: str | os.PathLike[str]) -> None:
        """Write a file.

        Raises:
            UsageError: It cannot be written, or a parameter cannot be; a builtin RuntimeError too.
        """
        data = write_adapter_bytes(self._content)
        try:
            Path(file_path).write_bytes(data)
        except OSError as error:
            raise UsageError(
                "The adapter cannot be written.",
                where=Location(file=os.fspath(file_path)),
                why=str(error),
                fix="Give a path in a folder that exists and has room.",
            ) from error

    def get_format_version(self) -> int:
        """Version of the file format."""
        return self._content.format_version

    def get_adapter_version(self) -> int:
        """The author's version of the adapter."""
        return self._content.adapter_version

    def set_adapter_version(self, adapter_version: int) -> None:
        """Set the author's version of the adapter, a 32-bit number.

        Raises:
            ArgumentTypeError: It is none.
        """
        self._replace(adapter_version=_int32(adapter_version))

    def get_model_version(self) -> int:
        """The author's version of the model it is for."""
        return self._content.model_version

    def set_model_version(self, model_version: int) -> None:
        """Set the author's version of the model it is for, a 32-bit number.

        Raises:
            ArgumentTypeError: It is none.
        """
        self._replace(model_version=_int32(model_version))

    def get_parameters(self) -> dict[str, OrtValue]:
        """The parameters by name; they share the memory of this adapter."""
        return {name: OrtValue.of(array) for name, array in self._content.parameters.items()}

    def set_parameters(self, params: Mapping[str, OrtValue]) -> None:
        """Replace all parameters.

        Args:
            params: Tensors by name, shared and not copied.

        Raises:
            ArgumentTypeError: A value is not an OrtValue with a tensor on the host.
        """
        self._replace(parameters={name: _array(name, value) for name, value in params.items()})

    def __repr__(self) -> str:
        return f"<AdapterFormat of {len(self._content.parameters)} parameters>"

    def _replace(self, **changes: Any) -> None:
        kept = {name: getattr(self._content, name) for name in AdapterContent.__slots__}
        self._content = AdapterContent(**(kept | changes))


class LoraAdapter:
    """An adapter to run with: see `RunOptions.add_active_adapter`."""

    __slots__ = ("_parameters",)

    def __init__(self) -> None:
        self._parameters: Mapping[str, np.ndarray[Any, Any]] = {}

    def Load(self, file_path: str | os.PathLike[str], /) -> None:  # noqa: N802 - onnxruntime's name
        """Read a file; what was loaded before is replaced.

        Raises:
            UsageError: It is not there, or no adapter; a builtin RuntimeError too.
        """
        self._parameters = _read(file_path).parameters

    @property
    def parameters(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Read-only arrays by the name of the initializer they replace."""
        return self._parameters

    def __repr__(self) -> str:
        return f"<LoraAdapter of {len(self._parameters)} parameters>"


def _read(path: str | os.PathLike[str]) -> AdapterContent:
    try:
        data = read_regular(path)
    except OSError as error:
        raise UsageError(
            "The adapter cannot be read.",
            where=Location(file=os.fspath(path)),
            why=str(error),
            fix="Give the path of a file that AdapterFormat.export_adapter() wrote.",
        ) from error
    try:
        return read_adapter_bytes(data)
    except UsageError as error:
        raise UsageError(error.what, where=Location(file=os.fspath(path)), why=error.why, fix=error.fix) from None


def _array(name: str, value: OrtValue) -> np.ndarray[Any, Any]:
    if isinstance(value, OrtValue) and isinstance(value.value, np.ndarray):
        return value.value
    raise ArgumentTypeError(
        f"The parameter '{name}' is not an OrtValue that holds a tensor.",
        why=f"it is a {type(value).__name__}",
        fix="Make one with OrtValue.ortvalue_from_numpy(array).",
    )


def _int32(value: int) -> int:
    if isinstance(value, int | np.integer) and -(2**31) <= value < 2**31:
        return int(value)
    raise ArgumentTypeError(f"A version must be a 32-bit number, not {value!r}.", fix="Pass such a number.")
