"""A session's wishes as OpenVINO's device and properties.

float32 is computed as float32 unless somebody asks for less: OpenVINO itself would take bfloat16 where the processor
has it. Knows no graphs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ort_py.contracts import SessionContext
from ort_py.errors import OptionError

__all__ = ["Target", "target_of"]

_PRECISIONS = {
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "FP32": "f32",
    "BF16": "bf16",
    "FP16": "f16",
}
_DEVICE = re.compile(r"(?:CPU|GPU|NPU)(?:\.\d+)?|(?:AUTO|HETERO|MULTI)(?::.+)?|BATCH:.+")


@dataclass(frozen=True, slots=True)
class Target:
    """Where and how a session's regions are compiled.

    Attributes:
        device: OpenVINO's name of the device.
        properties: For `compile_model` and `import_model`.
        static_only: Whether sizes must be known.
    """

    device: str
    properties: Mapping[str, Any]
    static_only: bool

    @property
    def on_processor(self) -> bool:
        """Whether the device is the processor and nothing else."""
        return self.device.split(".")[0] == "CPU"

    @property
    def key(self) -> str:
        """Text that differs where artifacts must."""
        return json.dumps([self.device, sorted((name, str(value)) for name, value in self.properties.items())])


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
            f"device_type={options['device_type']!r} is no device of OpenVINO.",
            fix="name CPU, GPU, NPU, one of several as GPU.1, or AUTO:, HETERO: or MULTI: with a list of them",
        )
    properties: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY", **_precision(str(options["precision"]), context)}
    if device.split(".")[0] == "CPU":
        properties |= {
            "INFERENCE_NUM_THREADS": int(options["num_of_threads"]) or max(1, context.threads),
            "NUM_STREAMS": max(1, int(options["num_streams"])),
            # The core counts threads; who else runs on this machine is not OpenVINO's to know.
            "ENABLE_CPU_PINNING": False,
        }
    elif int(options["num_streams"]) > 1:
        properties["NUM_STREAMS"] = int(options["num_streams"])
    if options["model_priority"] != "DEFAULT":
        properties["MODEL_PRIORITY"] = options["model_priority"]
    if options["cache_dir"]:
        properties["CACHE_DIR"] = str(options["cache_dir"])
    properties |= _given(str(options["load_config"]), device)
    return Target(device, properties, bool(options["disable_dynamic_shapes"]))


def _precision(asked: str, context: SessionContext) -> dict[str, str]:
    if asked.upper() == "ACCURACY":
        return {"EXECUTION_MODE_HINT": "ACCURACY"}
    name = asked.upper() or context.precision
    if name not in _PRECISIONS:
        raise OptionError(
            f"precision={asked!r} is none that OpenVINO computes in.", fix="use FP32, BF16, FP16 or ACCURACY"
        )
    return {"INFERENCE_PRECISION_HINT": _PRECISIONS[name]}


def _given(text: str, device: str) -> dict[str, Any]:
    """Properties from `load_config`: those of the device's section."""
    if not text:
        return {}
    try:
        read = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8"))
        found = {section: dict(values) for section, values in read.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise OptionError(
            f"load_config cannot be read: {error}.",
            fix='give JSON text such as {"CPU": {"NUM_STREAMS": "2"}}, or the path of a file with it',
        ) from error
    return found.get(device, found.get(re.split(r"[.:]", device)[0], {}))
