"""A region of a model as a session of onnxruntime.

Comes after `settings`, before `support` and `region`. Weights are not copied: onnxruntime reads the arrays that ort-py
holds.
"""

from __future__ import annotations

import contextlib
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from ort_py.contracts import RegionView
from ort_py.errors import Fail
from ort_py.lazy_dataclass import dataclass
from ort_py_onnxruntime.native import native, severity
from ort_py_onnxruntime.routes import CPU
from ort_py_onnxruntime.settings import Settings

__all__ = ["Model", "Wrapped", "assignments", "make_kept_session", "make_session", "model_of", "newest_opset"]

_IR_VERSION = 10
"""Of the models that it is given: they need no more, and onnxruntime has read it since 1.18."""

_OLDEST = 17

_GIVE_NOTHING: set[tuple[str, ...]] = set()
"""Providers whose compilers were found to give nothing away in this process."""


@dataclass(frozen=True, slots=True)
class Model:
    """A region as onnxruntime gets it.

    Attributes:
        proto: The model; the data of large constants is said to be in a file.
        weights: These constants by name, as values of onnxruntime, which read arrays of ort-py.
    """

    proto: onnx.ModelProto
    weights: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A value in the form in which onnxruntime's own Python package passes it on."""

    _ortvalue: Any


def model_of(region: RegionView) -> Model:
    """A region as a model whose weights stay where they are.

    ort-py writes large constants as inputs. Here they become initializers again, whose data is said to be in a file;
    `add_external_initializers` then says that it is in memory.
    """
    real = native()
    model = onnx.ModelProto.FromString(region.to_model("reference", standard=True))
    constants = {value.name for value in region.initializers}
    fed = [value for value in model.graph.input if value.name not in constants]
    host = real.OrtDevice(real.OrtDevice.cpu(), real.OrtDevice.default_memory(), 0)
    weights: dict[str, Any] = {}
    for value in model.graph.input:
        array = None if value.name not in constants else region.constant(value.name)
        if array is None:
            continue
        tensor = model.graph.initializer.add(name=value.name, data_type=value.type.tensor_type.elem_type)
        tensor.dims.extend(array.shape)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights")
        weights[value.name] = real.OrtValue.ortvalue_from_numpy(array, host)
    del model.graph.input[:]
    model.graph.input.extend(fed)
    for version in model.opset_import:
        # Its nodes have older versions, which stayed in force until then; onnxruntime looks at the stamp first.
        if version.domain in ("", "ai.onnx"):
            version.version = min(version.version, newest_opset())
    model.ir_version = min(model.ir_version, _IR_VERSION)
    return Model(model, weights)


def make_session(model: Model, settings: Settings, *, asking: bool = False, context: str = "") -> Any:
    """A session of onnxruntime with the providers of the settings.

    Args:
        asking: It is made to learn who gets which node: nodes stay as they are, and its CPU provider takes what the
            others leave.
        context: File that onnxruntime writes the model to with what the providers' compilers made; none where empty.

    Raises:
        Fail: A provider that was asked for is not used: onnxruntime falls back silently.
        Exception: Whatever onnxruntime raises.
    """
    real = native()
    options = real.SessionOptions()
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    options.logid = "ort-py"
    options.log_severity_level = severity()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle means idle
    if asking:
        options.graph_optimization_level = real.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    elif not settings.completes:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    if context:
        options.add_session_config_entry("ep.context_enable", "1")
        options.add_session_config_entry("ep.context_embed_mode", "1")
        options.add_session_config_entry("ep.context_file_path", context)
    if model.weights:
        options.add_external_initializers(list(model.weights), [Wrapped(value) for value in model.weights.values()])
    built_in = [used for used in settings.providers if not used.devices]
    for used in settings.providers:
        if used.devices:
            options.add_provider_for_devices(list(used.devices), dict(used.options))
    session = real.InferenceSession(options, model.proto.SerializeToString(), False, False)
    # Providers that are named here take the place of those of plug-ins; its CPU provider is there in any case.
    named = [] if len(built_in) < len(settings.providers) else built_in
    session.initialize_session([used.name for used in named], [dict(used.options) for used in named], set())
    unused = [name for name in settings.names if name not in session.get_providers()]
    if unused:
        raise Fail(
            f"onnxruntime does not use {', '.join(unused)} on this machine.",
            why=f"its session runs on {', '.join(session.get_providers())}",
            fix="Install what the provider needs, or do not name it.",
        )
    return session


def make_kept_session(model: Model, settings: Settings) -> tuple[Any, bytes]:
    """A session, and its model with what the providers' compilers made, in nodes called EPContext.

    Returns:
        The session; the model, empty where the providers give nothing away.

    Raises:
        Exception: As `make_session`.
    """
    if settings.names not in _GIVE_NOTHING:
        # A plug-in without such nodes fails, and so does a disk that is full; then a session is made without them.
        with (
            contextlib.suppress(Exception),
            tempfile.TemporaryDirectory(prefix="ort-py-onnxruntime-", ignore_cleanup_errors=True) as folder,
        ):
            written = Path(folder) / "context.onnx"
            session = make_session(model, settings, context=str(written))
            return session, written.read_bytes() if written.exists() else b""
    session = make_session(model, settings)
    _GIVE_NOTHING.add(settings.names)  # only now is it known that the nodes were not what failed
    return session, b""


def assignments(session: Any) -> list[tuple[str, str]]:
    """Provider and name of each node, of a session that was made for asking."""
    return [
        (subgraph.ep_name, node.name)
        for subgraph in session.get_provider_graph_assignment_info()
        for node in subgraph.get_nodes()
    ]


@cache
def newest_opset() -> int:
    """Newest opset of models that it takes.

    It has kernels and schemas of opsets that it refuses, as they are not released: only trying tells.
    """
    real = native()
    options = real.SessionOptions()
    options.log_severity_level = 4
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
    newest = onnx.defs.onnx_opset_version()
    while newest > _OLDEST:
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", newest)], ir_version=_IR_VERSION)
        try:
            session = real.InferenceSession(options, model.SerializeToString(), False, False)
            session.initialize_session([CPU], [{}], set())
        except Exception:  # its exceptions have no base of their own
            newest -= 1
        else:
            break
    return newest
