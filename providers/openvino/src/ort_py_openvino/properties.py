"""A session's settings as OpenVINO's device and properties.

Float32 is computed as float32 unless less is requested. By default OpenVINO would use bfloat16 if the processor has it,
and in any precision it would round factors of integer weights with a scale to 8 bits, with an error of some percent. So
it is set to prefer accuracy. It does not depend on graphs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from ort_py.contracts import SessionContext
from ort_py.errors import OptionError
from ort_py.lazy_dataclass import dataclass
from ort_py_openvino.shapes import Bounds, bounds_of

__all__ = ["Target", "target_of"]

_REVISION = 3
"""Number of the way in which regions become OpenVINO's models: it grows when the same region gives another model."""

_PRECISIONS = {
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "FP32": "f32",
    "BF16": "bf16",
    "FP16": "f16",
}
_SEVERAL = frozenset({"AUTO", "HETERO", "MULTI"})
_SINGLE = re.compile(r"(?:CPU|GPU|NPU)(?:\.\d+)?")
_DEVICE = re.compile(r"(?:CPU|GPU|NPU)(?:\.\d+)?|(?:AUTO|HETERO|MULTI)(?::.+)?")


@dataclass(frozen=True, slots=True)
class Target:
    """Device and properties with which a session's regions are compiled.

    Attributes:
        device: OpenVINO's name of the device.
        properties: For `compile_model` and `import_model`.
        static_only: Whether sizes must be known.
        shapes: Inputs whose sizes the caller promises, by name.
    """

    device: str
    properties: Mapping[str, Any]
    static_only: bool
    shapes: Mapping[str, Bounds] = field(default_factory=dict)

    @property
    def has_threads(self) -> bool:
        """True if OpenVINO runs requests on threads of its own, and not on the one that asks."""
        return self.device.partition(".")[0] != "CPU" or str(self.properties["NUM_STREAMS"]) != "1"

    def without_generated_loops(self) -> Target:
        """The same, with one operation of the processor for each operation of a model."""
        switch = {"SNIPPETS_MODE": "DISABLE"}
        properties = dict(self.properties)
        if self.device.partition(".")[0] == "CPU":
            properties |= switch
        elif "CPU" in properties.get("DEVICE_PROPERTIES", {}):
            nested = dict(properties["DEVICE_PROPERTIES"])
            properties["DEVICE_PROPERTIES"] = nested | {"CPU": {**nested["CPU"], **switch}}
        return replace(self, properties=properties)

    @property
    def key(self) -> str:
        """Text that differs where artifacts must."""
        return json.dumps([_REVISION, self.device, self.properties, self.shapes], sort_keys=True, default=str)


def target_of(options: Mapping[str, Any], context: SessionContext) -> Target:
    """Device and properties.

    Args:
        options: Validated against `OPTIONS`.
        context: The session's threads and precision.

    Raises:
        OptionError: A value that is none of those there are.
    """
    device = str(options["device_type"]).strip().upper()
    if not _DEVICE.fullmatch(device):
        raise OptionError(
            f"device_type={options['device_type']!r} is not a device of OpenVINO.",
            fix="name CPU, GPU, NPU, one of several as GPU.1, or AUTO:, HETERO: or MULTI: with a list of them",
        )
    given = _given(str(options["load_config"]))
    properties: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY"}
    if options["model_priority"] != "DEFAULT":
        properties["MODEL_PRIORITY"] = options["model_priority"]
    if options["cache_dir"]:
        properties["CACHE_DIR"] = str(options["cache_dir"])
    family = re.split(r"[.:]", device)[0]
    if family in _SEVERAL:
        named = {"CPU", *given, *(one.strip().lstrip("-") for one in device.partition(":")[2].split(","))}
        devices = sorted(one for one in named if _SINGLE.fullmatch(one))
        properties["DEVICE_PROPERTIES"] = {one: _of_device(one, options, context, given) for one in devices}
        properties |= given.get(family, {}) | given.get(device, {})
    else:
        properties |= _of_device(device, options, context, given)
    shapes = bounds_of(str(options["reshape_input"]))
    return Target(device, properties, bool(options["disable_dynamic_shapes"]), shapes)


def _of_device(
    device: str, options: Mapping[str, Any], context: SessionContext, given: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Properties of a single device, alone or as one of several."""
    family = device.partition(".")[0]
    found: dict[str, Any] = _precision(str(options["precision"]), context)
    streams = int(options["num_streams"])
    if family == "CPU":
        found |= {
            "INFERENCE_NUM_THREADS": int(options["num_of_threads"]) or max(1, context.threads),
            "NUM_STREAMS": max(1, streams),
            # The core counts threads; who else runs on this machine is not OpenVINO's to know.
            "ENABLE_CPU_PINNING": False,
        }
    elif streams > 1:
        found["NUM_STREAMS"] = streams
    return {**found, **given.get(device, given.get(family, {}))}


def _precision(asked: str, context: SessionContext) -> dict[str, str]:
    if asked.upper() == "ACCURACY":
        return {"EXECUTION_MODE_HINT": "ACCURACY"}
    name = asked.upper() or context.precision
    if name not in _PRECISIONS:
        raise OptionError(
            f"precision={asked!r} is not a precision that OpenVINO supports.", fix="use FP32, BF16, FP16 or ACCURACY"
        )
    return {"INFERENCE_PRECISION_HINT": _PRECISIONS[name], "EXECUTION_MODE_HINT": "ACCURACY"}


def _given(text: str) -> dict[str, dict[str, Any]]:
    """The sections of `load_config`, by device."""
    if not text:
        return {}
    try:
        read = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8"))
        return {section.upper(): dict(values) for section, values in read.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise OptionError(
            f"load_config cannot be read: {error}.",
            fix='give JSON text such as {"CPU": {"NUM_STREAMS": "2"}}, or the path of a file with it',
        ) from error
