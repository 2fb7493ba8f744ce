"""Replacements of the model's own values in a session's options: initializers given by the caller, sizes of dimensions.

Between `options` and `graph.reading`: turns `OrtValue`s into arrays, and replaces initializers of a model that was read
and is not typed yet. It is independent of providers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.discovery.environment import compat_mode
from ort_py.dtypes import TensorType, data_type_of
from ort_py.errors import Fail, Location
from ort_py.graph.weights.weight_store import process_store
from ort_py.options import SessionOptions, entry_of

if TYPE_CHECKING:
    from ort_py.engine.metadata import NodeArg
    from ort_py.graph.ir import Model
    from ort_py.graph.reading.given_model import GivenModel
    from ort_py.graph.reading.supplied import Supplied
    from ort_py.options.added import Added
    from ort_py.values.ort_value import OrtValue

_FOLDER_KEY = "session.model_external_initializers_file_folder_path"


def supplied_by(added: Added) -> Supplied:
    """The parts of the options that the loader needs."""
    from ort_py.graph.reading.supplied import Supplied  # a session from the cache loads nothing

    return Supplied(
        {name: _array(name, value) for name, value in added.external_initializers.items()},
        added.files,
        added.dimensions,
        added.denotations,
    )


def external_folder(options: SessionOptions, source: GivenModel) -> str | None:
    """Folder of external data; None for the model's own folder, or none.

    Args:
        options: `external_data_folder`, else onnxruntime's config entry, says where.

    For a model given as bytes onnxruntime looks into the working directory, which lets a stranger's model read what
    lies there; so this does it in compatibility mode only.
    """
    folder = os.fspath(options.external_data_folder) or entry_of(options, _FOLDER_KEY)
    if not folder and not source.path and compat_mode():
        return os.getcwd()
    return folder or None


def replace_initializers(model: Model, values: Mapping[str, OrtValue]) -> None:
    """Replace initializers of the main graph; names it does not have change nothing.

    Args:
        values: Values by name. The shape may differ from the model's, the element type may not.

    Raises:
        Fail: A value has another element type than the initializer.
    """
    for name, value in values.items():
        found = model.graph.initializers.get(name)
        if found is None or found.weight is None:
            continue
        array = _array(name, value)
        data_type = data_type_of(array.dtype)
        if data_type != found.weight.data_type:
            raise Fail(
                f"The value given for the initializer '{name}' has another element type.",
                where=Location(value=name),
                why=f"the model has {found.weight.data_type.onnx_name}, but the value has {data_type.onnx_name}",
                fix="Convert the array before creating the OrtValue.",
            )
        found.weight = process_store().add(array)
        found.type = TensorType(data_type, found.weight.shape)


def report_negative_sizes(arguments: Sequence[NodeArg], sizes: Mapping[str, int]) -> None:
    """Show negative sizes of dimensions in what a session reports, as onnxruntime does; nothing enforces them."""
    negative = {name: size for name, size in sizes.items() if size < 0}
    if negative:
        for argument in arguments:
            argument.shape[:] = [negative.get(dim, dim) if isinstance(dim, str) else dim for dim in argument.shape]


def _array(name: str, value: OrtValue) -> np.ndarray[Any, Any]:
    found = value.value
    if isinstance(found, np.ndarray):
        return found
    raise Fail(
        f"The value given for the initializer '{name}' is not a tensor on the host.",
        where=Location(value=name),
        why=f"it holds a {type(found).__name__}",
        fix="Pass OrtValue.ortvalue_from_numpy(array).",
    )
