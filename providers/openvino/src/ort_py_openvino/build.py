"""A region as OpenVINO's model: read without its weights, which then stand on the memory where they are.

Comes between a region's view and `region`, which compiles the model.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.contracts import RegionView
from ort_py_openvino.elements import module_once, tensor
from ort_py_openvino.made_inside import add_flag
from ort_py_openvino.quantisation import write_quantisation
from ort_py_openvino.runtime import core
from ort_py_openvino.shapes import Bounds, partial_shape

__all__ = ["model_of", "writable"]


def model_of(
    region: RegionView, shapes: Mapping[str, Bounds] | None = None, looked_at: Sequence[str] = ()
) -> tuple[Any, list[object]]:
    """OpenVINO's model of a region, and what must outlive whatever is compiled of it: its constants.

    The plug-in packs weights of products and convolutions and goes on reading the others where they are, without saying
    which: no constant is given up.

    Args:
        region: What to build.
        shapes: Sizes of inputs that are promised, by name.
        looked_at: Values that a further output of the model is a flag of: see `made_inside`.

    Raises:
        EPFail: OpenVINO's model does not have a value of `looked_at`.
        RuntimeError: OpenVINO's, where its reader does not convert the region, or the sizes do not fit it.
    """
    openvino = module_once()
    model = core().read_model(region.to_model("reference", standard=True))
    kept: list[object] = []
    for parameter in model.get_parameters():
        name, weight = next(
            ((name, found) for name in parameter.output(0).get_names() if (found := region.weight(name)) is not None),
            ("", None),
        )
        if weight is None:
            continue
        whole = writable(np.ascontiguousarray(weight.array()))
        kept += [whole, weight.held()]
        # A constant for each reader, on the same memory: the plug-in fuses a bias only if it has a single reader.
        for reader in parameter.output(0).get_target_inputs():
            constant = openvino.op.Constant(tensor(whole, weight.data_type), shared_memory=True)
            constant.set_friendly_name(name)
            reader.replace_source_output(constant.output(0))
        model.remove_parameter(parameter)
    write_quantisation(model, region)
    if looked_at:
        add_flag(model, looked_at)
    promised = {
        port: partial_shape(openvino, shapes[name])
        for port in model.inputs
        for name in port.get_names()
        if shapes and name in shapes
    }
    if promised:
        model.reshape(promised)
    else:
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
