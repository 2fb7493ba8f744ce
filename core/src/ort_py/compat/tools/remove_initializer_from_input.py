"""``python -m ort_py.tools.remove_initializer_from_input``: make initializers that may be fed plain constants."""

from __future__ import annotations

import argparse

import onnx

from ort_py.logs import lazy_logger

__all__ = ["remove_initializer_from_input"]

_logger = lazy_logger("ort_py.tools")
_FIRST_IR = 4


def remove_initializer_from_input(model: onnx.ModelProto) -> bool:
    """Take initializers out of the graph's inputs, so that they are constants and can be folded.

    Args:
        model: Changed in place.

    Returns:
        Whether something was changed: nothing is where the IR version is below 4, which has them among the inputs.
    """
    if model.ir_version < _FIRST_IR:
        _logger.warning("a model of IR version %d has its initializers among the inputs", model.ir_version)
        return False
    names = {initializer.name for initializer in model.graph.initializer}
    kept = [info for info in model.graph.input if info.name not in names]
    changed = len(kept) < len(model.graph.input)
    if changed:
        del model.graph.input[:]
        model.graph.input.extend(kept)
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(description="Take initializers out of the inputs of a model.")
    parser.add_argument("--input", required=True, help="model to read")
    parser.add_argument("--output", required=True, help="file to write")
    parsed = parser.parse_args()
    model = onnx.load(parsed.input)
    remove_initializer_from_input(model)
    onnx.save(model, parsed.output)
