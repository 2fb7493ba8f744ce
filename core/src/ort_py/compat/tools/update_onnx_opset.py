"""``python -m ort_py.tools.update_onnx_opset``: convert a model to a newer version of the standard operators."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ort_py.compat.tools.model_utils import update_onnx_opset

__all__ = ["update_onnx_opset", "update_onnx_opset_helper"]


def update_onnx_opset_helper(arguments: Sequence[str] | None = None) -> None:
    """Run the tool.

    Args:
        arguments: Arguments of the command line; None for the process's.

    Raises:
        SystemExit: They are wrong.
    """
    parser = argparse.ArgumentParser(description="Convert a model to another version of the standard operators.")
    parser.add_argument("--opset", type=int, default=15, help="version wanted, 15 by default")
    parser.add_argument("input_model", type=Path, help="model to read")
    parser.add_argument("output_model", type=Path, help="file to write")
    parsed = parser.parse_args(arguments)
    update_onnx_opset(parsed.input_model, parsed.opset, parsed.output_model)
