"""The options of OpenVINOExecutionProvider, named as onnxruntime names them; what is not given is the session's."""

from __future__ import annotations

from ort_py.contracts import OptionSpec

__all__ = ["OPTIONS", "computes_on_cpu"]

OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec("device_type", str, "CPU", "Device: CPU, GPU, GPU.1, NPU, AUTO:GPU,CPU, HETERO:GPU,CPU or MULTI:…"),
    OptionSpec(
        "precision",
        str,
        "",
        "Precision of float32 models: FP32, BF16 or FP16; ACCURACY leaves each tensor its type. "
        "The session's precision where it is not given.",
    ),
    OptionSpec("num_of_threads", int, 0, "Threads on the processor; 0 takes the session's."),
    OptionSpec("num_streams", int, 1, "Runs that OpenVINO computes side by side."),
    OptionSpec(
        "cache_dir", str, "", "Folder in which OpenVINO itself caches compiled models, for devices that support it."
    ),
    OptionSpec(
        "model_priority", str, "DEFAULT", "Order among models on one device.", ("DEFAULT", "LOW", "MEDIUM", "HIGH")
    ),
    OptionSpec(
        "reshape_input",
        str,
        "",
        "Sizes of inputs, or their bounds, that a model leaves open: ids[1,1..128],picture[1,3,224,224]. OpenVINO "
        "compiles for these; other shapes are run by the next provider.",
    ),
    OptionSpec("disable_dynamic_shapes", bool, False, "Leave graphs with unknown sizes to other providers."),
    OptionSpec(
        "load_config",
        str,
        "",
        "JSON text, or the path of a JSON file: properties of OpenVINO by device, e.g. "
        '{"CPU": {"INFERENCE_PRECISION_HINT": "bf16"}}. They take precedence over all other options.',
    ),
    OptionSpec("claim_small", bool, False, "Also take subgraphs that are faster without the call to OpenVINO."),
)


def computes_on_cpu(device_type: str) -> bool:
    """Return whether regions for a device may be computed on the processor.

    AUTO, HETERO and MULTI choose among the devices in their list; without a list, among all there are. AUTO also starts
    on the processor while it compiles for another device, unless the list excludes that as ``-CPU``.

    Args:
        device_type: The option, as it was given.
    """
    family, _, listed = device_type.strip().upper().partition(":")
    devices = {device.strip().partition(".")[0] for device in listed.split(",") if device.strip()}
    if family in {"HETERO", "MULTI"}:
        return not devices or "CPU" in devices
    if family == "AUTO":
        return "-CPU" not in devices
    return family.partition(".")[0] == "CPU"
