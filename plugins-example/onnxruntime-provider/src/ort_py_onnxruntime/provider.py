"""The provider of one session: each region becomes a session of onnxruntime.

Comes after `settings` and `support`. Weights are not copied: onnxruntime reads the arrays that ort-py holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

from ort_py.contracts import Array, CompiledRegion, FunctionRegion, GraphView, NodeSpec, RegionProvider, RegionView
from ort_py.errors import Fail
from ort_py_onnxruntime.plugin import NAME
from ort_py_onnxruntime.settings import Settings
from ort_py_onnxruntime.support import IR_VERSION, Support

__all__ = ["OnnxruntimeProvider"]

_ERRORS_ONLY = 3


class OnnxruntimeProvider(RegionProvider):
    """Hands what onnxruntime has kernels for to it, in regions as large as they can be.

    Args:
        settings: How its sessions are made.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._support = Support(settings.names)

    @property
    def name(self) -> str:
        """The factory's name."""
        return NAME

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        """Explain why a node is not handed over, or return None."""
        return self._support.refusal(node)

    def compile(self, region: RegionView) -> CompiledRegion:
        """A session of onnxruntime.

        Raises:
            Fail: A provider that was asked for is not used: onnxruntime falls back silently.
        """
        model, weights = _with_weights_outside(region)
        for version in model.opset_import:
            # Its nodes have older versions, which stayed in force until then; onnxruntime looks at the stamp first.
            if version.domain in ("", "ai.onnx"):
                version.version = min(version.version, self._support.newest_opset)
        model.ir_version = min(model.ir_version, IR_VERSION)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(),
            _session_options(self._settings.threads, weights),
            providers=list(self._settings.names),
            provider_options=[options for _, options in self._settings.providers],
        )
        unused = [name for name in self._settings.names if name not in session.get_providers()]
        if unused:
            raise Fail(
                f"onnxruntime does not use {', '.join(unused)} on this machine.",
                why=f"its session runs on {', '.join(session.get_providers())}; its log says more",
                fix="Install what the provider needs, or leave it out of option 'providers'.",
            )
        return FunctionRegion(_caller(session, weights))


def _caller(session: Any, weights: dict[str, Any]) -> Any:
    inputs = [value.name for value in session.get_inputs()]
    run = session.run

    def call(*arrays: Array) -> Sequence[Array]:
        results = run(None, dict(zip(inputs, arrays, strict=True)))
        # A value that passes through onnxruntime unchanged must still be an array of its own.
        return [np.array(result) if _is_one_of(result, arrays) else result for result in results]

    call.weights = weights  # type: ignore[attr-defined]  # onnxruntime reads them as long as the session lives
    return call


def _is_one_of(result: Array, arrays: Sequence[Array]) -> bool:
    return any(np.may_share_memory(result, array) for array in arrays)


def _session_options(threads: int, weights: dict[str, Any]) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle means idle
    if weights:
        options.add_external_initializers(list(weights), list(weights.values()))
    return options


def _with_weights_outside(region: RegionView) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """The region as a model, and what it reads from outside: large constants by name, as values of onnxruntime.

    ort-py writes large constants as inputs. Here they become initializers again, whose data is said to be in a file;
    `add_external_initializers` then says that it is in memory.
    """
    model = onnx.ModelProto.FromString(region.to_model("reference", standard=True))
    constants = {value.name for value in region.initializers}
    fed = [value for value in model.graph.input if value.name not in constants]
    weights: dict[str, Any] = {}
    for value in model.graph.input:
        array = None if value.name not in constants else region.constant(value.name)
        if array is None:
            continue
        tensor = model.graph.initializer.add(name=value.name, data_type=value.type.tensor_type.elem_type)
        tensor.dims.extend(array.shape)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights")
        weights[value.name] = onnxruntime.OrtValue.ortvalue_from_numpy(array)
    del model.graph.input[:]
    model.graph.input.extend(fed)
    return model, weights
