"""Programs of users, as a type checker sees them: every line here must pass ``mypy --strict``. Never run."""

from __future__ import annotations

import asyncio
import copy
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import ort_py as ort

# Sources and options.
options = ort.SessionOptions()
options.intra_op_num_threads = 2
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
options.add_session_config_entry("session.disable_prepacking", "1")
options.optimized_model_filepath = Path("optimised.onnx")
options.disabled_transforms = {"ConstantFolding"}
options.verify = 0.01
wanted_threads: int = options.intra_op_num_threads
limit: int | None = options.memory_limit_bytes
wanted_level: ort.GraphOptimizationLevel = options.graph_optimization_level
second: ort.SessionOptions = copy.copy(options)
by_path = ort.InferenceSession("model.onnx")
by_object = ort.InferenceSession(Path("model.onnx"), options)
by_bytes = ort.InferenceSession(
    Path("model.onnx").read_bytes(), sess_options=options, providers=["CPUExecutionProvider"]
)
by_pairs = ort.InferenceSession("model.onnx", providers=[("CPUExecutionProvider", {"key": 1}), "CPUExecutionProvider"])


class Classifier:
    """A model behind a method, as services have it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.session: ort.InferenceSession = ort.InferenceSession(path)
        self.input_name: str = self.session.get_inputs()[0].name
        self.shape: list[int | str | None] = self.session.get_inputs()[0].shape

    def __call__(self, pictures: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Probabilities."""
        scores: npt.NDArray[np.float32]
        (scores,) = self.session.run(None, {self.input_name: pictures})
        return scores


def tell(results: list[Any], user_data: Any, error: str) -> None:
    """A callback of `run_async`."""
    assert error == "", (error, results, user_data)


async def serve(session: ort.InferenceSession, batch: list[npt.NDArray[np.float32]]) -> list[list[Any]]:
    """Awaited runs."""
    try:
        first: list[Any] = await session.run_asyncio(None, {"x": batch[0]}, timeout=0.5)
        return [first, *await asyncio.gather(*[session.run_asyncio(["y"], {"x": x}) for x in batch])]
    except ort.RunTimeoutError as error:
        reasons: tuple[str, ...] = error.why
        raise TimeoutError(*reasons) from error


def work(session: ort.InferenceSession) -> int:
    """The work of a worker process."""
    return len(session.run(None, {}))


run_options = ort.RunOptions()
run_options.terminate = False
by_path.run_async(["y"], {"x": np.zeros(3)}, tell, {"request": 1}, run_options)
with ProcessPoolExecutor() as pool, by_object as session:
    counts: list[int] = list(pool.map(work, [session]))
twin: ort.InferenceSession = copy.deepcopy(by_path)
providers: list[str] = twin.get_providers()
settings: dict[str, dict[str, str]] = twin.get_provider_options()
metadata: ort.ModelMetadata = twin.get_modelmeta()
version: int = metadata.version
placed: dict[str, int] = twin.placement.counts()
tensors: list[Any] = twin.run_torch(None, {"x": np.zeros(3)})
value: ort.OrtValue = ort.OrtValue.ortvalue_from_numpy(np.zeros(2))
dims: list[int] = value.shape()
release: str = ort.__version__
level: int = int(options.graph_optimization_level)
