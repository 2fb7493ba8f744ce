"""The observations of a program, and every tensor of its sessions, written for the test that compares two runtimes.

Imported by the programs beside it, before the application. `onnxruntime` is whatever the process calls so; where it is
onnxruntime itself, it reads quantised models in a form that it computes exactly on every processor.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

sys.path.append(str(Path(__file__).resolve().parents[4]))  # the repository, of which a program is not a package

from tests.support.exact_integers import with_unsigned_weights

__all__ = ["main"]

_tensors: dict[str, np.ndarray[Any, Any]] = {}


def _recording(run: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """A session's `run` that keeps what it gives."""

    def recorded(*arguments: Any, **options: Any) -> list[Any]:
        found = run(*arguments, **options)
        for value in found:
            if isinstance(value, np.ndarray):
                _tensors[f"{len(_tensors):05}"] = value.copy()
        return found

    return recorded


class _ExactSession(onnxruntime.InferenceSession):  # type: ignore[misc]  # it has no types
    """A session whose products of integers do not saturate."""

    def __init__(self, path_or_bytes: Any, *arguments: Any, **options: Any) -> None:
        exact = with_unsigned_weights(Path(path_or_bytes)) if isinstance(path_or_bytes, str | Path) else None
        super().__init__(exact or path_or_bytes, *arguments, **options)


def main(application: Callable[[], Any]) -> None:
    """Run an application and write what it gives, as JSON and NumPy archive, where the first argument says.

    Args:
        application: Returns what it found: numbers, texts, lists and dicts of them.
    """
    if "ort_py" not in sys.modules:
        onnxruntime.InferenceSession = _ExactSession
    onnxruntime.InferenceSession.run = _recording(onnxruntime.InferenceSession.run)
    found = application()
    target = Path(sys.argv[1])
    np.savez(target.with_suffix(".npz"), **_tensors)
    runtime = {"file": onnxruntime.__file__, "version": onnxruntime.__version__}
    target.write_text(json.dumps({"runtime": runtime, "found": found}, default=_plain), encoding="utf-8")


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
