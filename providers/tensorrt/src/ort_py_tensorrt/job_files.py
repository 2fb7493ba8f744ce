"""The files through which a build and its child process exchange a model, its weights and the engine.

Weights lie in one file that the child maps, so that neither process holds a second copy of them. Comes after
`region_model`; `jobs` writes a folder of these and `child` reads it.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from ort_py.lazy_dataclass import dataclass
from ort_py_tensorrt.profiles import Profile
from ort_py_tensorrt.region_model import RegionModel
from ort_py_tensorrt.wishes import BuildWishes

__all__ = ["ENGINE", "TIMES", "Request", "WeightFile", "read_request", "write_request"]

ENGINE = "engine"
"""Name of the file that the child writes last."""

TIMES = "times"
"""Name of the file of times, which the child reads and writes."""

_LINE = 256


@dataclass(frozen=True, slots=True)
class Request:
    """The work of a child process.

    Attributes:
        provider: Name of the provider whose library builds.
        model: The region.
        profile: Shapes of its inputs.
        wishes: What the engine is built with.
        detailed: Whether everything is logged.
        times: Times of kernels from earlier builds; None where none are kept.
    """

    provider: str
    model: RegionModel
    profile: Profile
    wishes: BuildWishes
    detailed: bool = False
    times: bytes | None = None


class WeightFile:
    """A file of weights, to which several requests add. Each array is written once.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[tuple[int, int], tuple[int, np.ndarray[Any, Any]]] = {}

    def place(self, array: np.ndarray[Any, Any]) -> int:
        """Return the offset of an array, which must not change from now on."""
        key = array.ctypes.data, array.nbytes
        found = self._places.get(key)
        if found is None:
            with self.path.open("ab") as file:
                file.write(bytes(-file.tell() % _LINE))
                found = self._places[key] = file.tell(), array  # which keeps the address from being used again
                file.write(array.reshape(-1).view(np.uint8).data)
        return found[0]


def write_request(folder: Path, request: Request, weights: WeightFile | None = None) -> None:
    """Write a request to an empty folder.

    Args:
        folder: The folder.
        request: The request.
        weights: File of the weights; None for one in the folder.
    """
    (folder / "model.onnx").write_bytes(request.model.proto.SerializeToString())
    file = weights or WeightFile(folder / "weights")
    places = [
        {"name": name, "dtype": array.dtype.name, "shape": array.shape, "offset": file.place(array)}
        for name, array in request.model.weights.items()
    ]
    if request.times is not None:
        (folder / TIMES).write_bytes(request.times)
    told = {
        "provider": request.provider,
        "profile": request.profile.to_json(),
        "wishes": asdict(request.wishes),
        "detailed": request.detailed,
        "weights": places,
        "weights_file": str(file.path),
    }
    (folder / "request.json").write_text(json.dumps(told), encoding="utf-8")


def read_request(folder: Path) -> Request:
    """Read a request. Weights are mapped."""
    told = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    file = Path(told["weights_file"])
    weights: dict[str, np.ndarray[Any, Any]] = {}
    for one in told["weights"]:
        dtype, shape = _dtype(one["dtype"]), tuple(one["shape"])
        count = int(np.prod(shape, dtype=np.int64))
        if count:
            weights[one["name"]] = np.memmap(file, dtype, "r", one["offset"], shape)
        else:
            weights[one["name"]] = np.empty(shape, dtype)
    model = onnx.ModelProto.FromString((folder / "model.onnx").read_bytes())
    wishes = dict(told["wishes"])
    wishes["capabilities"] = tuple(wishes["capabilities"])
    times = folder / TIMES
    return Request(
        told["provider"],
        RegionModel(model, weights),
        Profile.from_json(told["profile"]),
        BuildWishes(**wishes),
        bool(told["detailed"]),
        times.read_bytes() if times.exists() else None,
    )


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, None) or name)
