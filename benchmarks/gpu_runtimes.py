"""One runtime with one model on one device, in the process of `runtime_child`: inputs and outputs stay on the device.

A run ends when the device has ended: every runtime is synchronised. ort-py and onnxruntime take the same road, an
IOBinding whose memory is on the device. `cpu` as the device is for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["LARGEST_COMPARED", "open_on_device"]

LARGEST_COMPARED = 64 << 20
"""Bytes of an output; larger ones are not brought to the host to be compared."""

PROVIDERS = {"cuda": "CUDAExecutionProvider", "cpu": "CPUExecutionProvider"}
_WARMING = 3


def open_on_device(runtime: str, model: str, feeds: Mapping[str, Any], device: Mapping[str, Any]) -> Any:
    """A session: `run` for one synchronised run, `on_host` for the outputs of the last.

    Args:
        runtime: ``"ort_py"``, ``"onnxruntime"`` or ``"torch"``.
        model: The file; for PyTorch one that `GpuModel.make` wrote.
        feeds: Inputs of each run, in the host's memory.
        device: ``kind`` (``"cuda"`` or ``"cpu"``), ``tf32`` (whether float32 products may be TF32), ``graphs`` (whether
            runs are captured and replayed), ``compiled`` (PyTorch only).

    Raises:
        RuntimeError: The runtime is not installed, or does not have this device.
    """
    return _Torch(model, feeds, device) if runtime == "torch" else _Bound(runtime, model, feeds, device)


class _Bound:
    """ort-py and onnxruntime."""

    def __init__(self, runtime: str, model: str, feeds: Mapping[str, Any], device: Mapping[str, Any]) -> None:
        if runtime == "onnxruntime":
            try:
                import onnxruntime as module
            except ImportError as error:
                raise RuntimeError("onnxruntime is not installed here: pip install onnxruntime-gpu") from error
        else:
            import ort_py as module
        kind, provider = device["kind"], PROVIDERS[device["kind"]]
        if provider not in module.get_available_providers():
            raise RuntimeError(f"{runtime} has no {provider} here; it has {module.get_available_providers()}")
        asked = {"use_tf32": str(int(device["tf32"])), "enable_cuda_graph": str(int(device["graphs"]))}
        options = module.SessionOptions()
        options.log_severity_level = 3
        listed = [(provider, asked), PROVIDERS["cpu"]] if kind != "cpu" else [provider]
        self._session = module.InferenceSession(model, options, providers=listed)
        if provider not in self._session.get_providers():
            raise RuntimeError(f"{runtime} made a session without {provider}: {self._session.get_providers()}")
        self._binding = binding = self._session.io_binding()
        for name, array in feeds.items():
            on_device = module.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), kind, 0)
            binding.bind_ortvalue_input(name, on_device)
        names = [output.name for output in self._session.get_outputs()]
        for name in names:
            binding.bind_output(name, kind, 0)
        self.run(None, feeds)
        # The same memory in every run: what a captured graph needs, and what an application that cares would do.
        for name, value in zip(names, binding.get_outputs(), strict=True):
            binding.bind_ortvalue_output(name, value)
        for _ in range(_WARMING):
            self.run(None, feeds)

    def run(self, _names: None, _feeds: Mapping[str, Any]) -> None:
        """From enqueuing to the end."""
        self._session.run_with_iobinding(self._binding)
        self._binding.synchronize_outputs()

    def on_host(self) -> list[Any]:
        """Outputs of the last run, but the large ones."""
        return [one.numpy() for one in self._binding.get_outputs() if one.tensor_size_in_bytes() <= LARGEST_COMPARED]


class _Torch:
    """PyTorch, eager or compiled."""

    def __init__(self, model: str, feeds: Mapping[str, Any], device: Mapping[str, Any]) -> None:
        try:
            import torch
        except ImportError as error:
            raise RuntimeError("PyTorch is not installed here: pip install torch") from error
        from benchmarks.gpu_models import made_of
        from benchmarks.gpu_torch import module_of

        kind = device["kind"]
        if kind == "cuda":
            if not torch.cuda.is_available():
                raise RuntimeError(f"PyTorch {torch.__version__} sees no CUDA device")
            torch.cuda.empty_cache()
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = bool(device["tf32"])
        self._torch: Any = torch
        self._synchronise: Callable[[], Any] = torch.cuda.synchronize if kind == "cuda" else lambda: None
        size, half = made_of(Path(model))
        self._module = module_of(size, half, kind)
        self._feeds = {name: torch.from_numpy(np.ascontiguousarray(array)).to(kind) for name, array in feeds.items()}
        self._outputs: tuple[Any, ...] = ()
        if device.get("compiled"):
            mode = "reduce-overhead" if device["graphs"] else None
            self._module = torch.compile(self._module, mode=mode, dynamic=False)
        for _ in range(_WARMING):
            self.run(None, feeds)

    def run(self, _names: None, _feeds: Mapping[str, Any]) -> None:
        """From enqueuing to the end."""
        with self._torch.inference_mode():
            self._outputs = self._module(**self._feeds)
        self._synchronise()

    def on_host(self) -> list[Any]:
        """Outputs of the last run, but the large ones."""
        return [one.cpu().numpy() for one in self._outputs if one.nbytes <= LARGEST_COMPARED]
