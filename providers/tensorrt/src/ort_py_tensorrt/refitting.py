"""The weights of an engine that was built without them: the library takes them from the region's model.

Not yet run on a device: the library only refits engines that it has loaded on one. Comes after `region_model` and
`toolkit`; before `execution`, which loads engines.
"""

from __future__ import annotations

from typing import Any

from ort_py.errors import EPFail
from ort_py_tensorrt.region_model import RegionModel
from ort_py_tensorrt.toolkit import Toolkit

__all__ = ["refit"]


def refit(toolkit: Toolkit, native: Any, model: RegionModel) -> None:
    """Give an engine the weights of its region. They are handed over by their addresses.

    Args:
        toolkit: The library.
        native: The library's engine, of which no context has been made yet.
        model: The region that the engine was built from, with the same weights.

    Raises:
        EPFail: The library does not take them.
    """
    library = toolkit.module
    with toolkit.errors() as errors:
        refitter = library.Refitter(native, toolkit.logger)
        parser = library.OnnxParserRefitter(refitter, toolkit.logger)
        taken = parser.load_model_proto(model.proto.SerializeToString())
        for name, array in model.weights.items():
            taken = taken and parser.load_initializer(name, array.ctypes.data, array.nbytes)
        if taken and parser.refit_model_proto() and refitter.refit_cuda_engine():
            return
        reasons = [" ".join(str(parser.get_error(one).desc()).split()) for one in range(parser.num_errors)]
    del refitter, parser, native  # the error would keep them alive, and they have to go before the engine's runtime
    raise EPFail(
        f"{toolkit.variant.title} does not take the weights of an engine.",
        why=reasons or errors or "it gives no reason",
        fix=f"Leave out {toolkit.variant.prefix}_weight_stripped_engine_enable.",
    )
