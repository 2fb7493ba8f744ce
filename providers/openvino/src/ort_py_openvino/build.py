"""A region as OpenVINO's model: read without its weights, which then stand on the memory where they are.

Comes between a region's view and `region`, which compiles the model.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ort_py.contracts import RegionView
from ort_py_openvino.elements import module_once, tensor
from ort_py_openvino.runtime import core

__all__ = ["model_of", "writable"]


def model_of(region: RegionView) -> tuple[Any, list[np.ndarray[Any, Any]]]:
    """OpenVINO's model of a region, and the arrays that its constants are: they must outlive what is compiled of it,
    for the plug-in packs most weights and goes on reading the others where they are.

    Raises:
        RuntimeError: OpenVINO's, where its reader does not convert the region.
    """
    openvino = module_once()
    model = core().read_model(region.to_model("reference", standard=True))
    types = {value.name: value.data_type for value in region.initializers}
    kept: list[np.ndarray[Any, Any]] = []
    for parameter in model.get_parameters():
        name = next((name for name in parameter.output(0).get_names() if name in types), None)
        if name is None:
            continue
        array, data_type = region.constant(name), types[name]
        assert array is not None, f"{name} is an initializer"
        assert data_type is not None, f"{name} is a tensor"
        whole = writable(np.ascontiguousarray(array))
        kept.append(whole)
        constant = openvino.op.Constant(tensor(whole, data_type), shared_memory=True)
        constant.set_friendly_name(name)
        parameter.output(0).replace(constant.output(0))
        model.remove_parameter(parameter)
    model.validate_nodes_and_infer_types()
    return model, kept


def writable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same memory for OpenVINO, whose tensors want arrays that can be written to, though inputs never are.

    Args:
        array: C-contiguous; kept alive by what is returned.
    """
    if array.flags.writeable or not array.nbytes:
        return array
    block = _Kept((ctypes.c_byte * array.nbytes).from_address(array.ctypes.data), array)
    found: np.ndarray[Any, Any] = np.asarray(block).view(array.dtype).reshape(array.shape)
    return found


class _Kept:
    """Bytes at an address, and the array that owns them."""

    def __init__(self, block: Any, owner: np.ndarray[Any, Any]) -> None:
        self._owner = owner
        self.__array_interface__ = np.frombuffer(block, np.uint8).__array_interface__
