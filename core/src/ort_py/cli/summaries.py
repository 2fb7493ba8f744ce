"""Values in a few numbers: what a person wants to know about an output, as data, as text, and as files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ort_py.cli.output import plain, shape_text
from ort_py.dtypes import data_type_of

SHOWN = 5
MIN_CLASSES = 3


def summarise(name: str, value: Any) -> dict[str, Any]:
    """Summarise a value as plain data.

    Args:
        value: Array, list, dict or None.

    Returns:
        ``name`` and ``kind`` (tensor, sequence, map, empty); for tensors ``dtype``, ``shape``, ``first``, the numeric
        ones ``min``, ``mean``, ``max``, and what looks like scores of classes ``top``: (class, score), best first.
    """
    if isinstance(value, list):
        items = [summarise(f"{name}[{index}]", item) for index, item in enumerate(value[:SHOWN])]
        return {"name": name, "kind": "sequence", "length": len(value), "items": items}
    if isinstance(value, dict):
        first = {plain(key): plain(item) for key, item in list(value.items())[:SHOWN]}
        return {"name": name, "kind": "map", "length": len(value), "items": first}
    if value is None:
        return {"name": name, "kind": "empty"}
    array = np.asarray(value)
    summary: dict[str, Any] = {
        "name": name,
        "kind": "tensor",
        "dtype": data_type_of(array.dtype).onnx_name,
        "shape": list(array.shape),
        "first": plain(_numeric(array.ravel()[:SHOWN])),
    }
    numbers = _numeric(array)
    if numbers.size and numbers.dtype.kind in "fiub":
        wide = numbers.astype(np.float64)
        summary |= {"min": plain(wide.min()), "mean": plain(wide.mean()), "max": plain(wide.max())}
        if _like_scores(array):
            flat = numbers.ravel()
            best = np.argsort(-wide.ravel(), kind="stable")[:SHOWN]
            summary["top"] = [[int(index), plain(flat[index])] for index in best]
    return summary


def _numeric(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array in a type NumPy can reduce; ml_dtypes' types become float32."""
    return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.name.startswith("bfloat") else array


def _like_scores(array: np.ndarray[Any, Any]) -> bool:
    """One row of floating numbers, e.g. (1, 1000)."""
    floating = array.dtype.kind not in "iubO"
    return floating and array.ndim >= 1 and array.shape[-1] == array.size >= MIN_CLASSES


def summary_text(summary: Mapping[str, Any], indent: str = "  ") -> str:
    """A summary in one or two lines."""
    kind = summary["kind"]
    if kind == "empty":
        return f"{indent}{summary['name']}: empty"
    if kind == "map":
        shown = ", ".join(f"{key!r}: {_number(item)}" for key, item in summary["items"].items())
        more = ", …" if summary["length"] > SHOWN else ""
        return f"{indent}{summary['name']}: map of {summary['length']} {{{shown}{more}}}"
    if kind == "sequence":
        lines = [f"{indent}{summary['name']}: sequence of {summary['length']}"]
        return "\n".join(lines + [summary_text(item, indent + "  ") for item in summary["items"]])
    text = f"{indent}{summary['name']}: {summary['dtype']}{shape_text(summary['shape'])}"
    if "min" in summary:
        text += f"  min {_number(summary['min'])}  mean {_number(summary['mean'])}  max {_number(summary['max'])}"
    if "top" in summary:
        best = ", ".join(f"#{index} {_number(score)}" for index, score in summary["top"])
        return f"{text}\n{indent}  best: {best}"
    if summary["first"]:
        values = ", ".join(_number(item) for item in summary["first"])
        more = ", …" if int(np.prod(summary["shape"], dtype=np.int64)) > SHOWN else ""
        text += f"\n{indent}  values: {values}{more}"
    return text


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else repr(value) if isinstance(value, str) else str(value)


def save_values(folder: Path, values: Iterable[tuple[str, Any]]) -> list[Path]:
    """Save values as .npy files named like the outputs, one a tensor; maps and empty optionals have no such form.

    Args:
        folder: Made where it does not exist.
        values: (name, value) pairs.

    Returns:
        The files written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, value in values:
        if isinstance(value, list):
            tensors = [(f"{name}.{index}", item) for index, item in enumerate(value)]
        else:
            tensors = [(name, value)]
        for title, tensor in tensors:
            if isinstance(tensor, np.ndarray):
                path = _free_path(folder, title, written)
                # Texts are saved as such: arrays of objects would be pickled.
                np.save(path, tensor.astype(np.str_) if tensor.dtype.kind == "O" else tensor, allow_pickle=False)
                written.append(path)
    return written


def _free_path(folder: Path, name: str, taken: Iterable[Path]) -> Path:
    # Names come from the model: nothing in them may lead out of the folder, and two must not share a file.
    stem = re.sub(r"[^\w.\-]", "_", name).lstrip(".") or "output"
    path = folder / f"{stem}.npy"
    number = 2
    while path in taken:
        path = folder / f"{stem}.{number}.npy"
        number += 1
    return path
