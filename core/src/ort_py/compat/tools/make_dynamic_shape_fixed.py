"""``python -m ort_py.tools.make_dynamic_shape_fixed``: give a symbolic dimension or an input's shape numbers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import onnx

from ort_py.compat.tools.model_utils import fix_output_shapes, make_dim_param_fixed, make_input_shape_fixed

__all__ = ["make_dynamic_shape_fixed_helper"]


def make_dynamic_shape_fixed_helper(arguments: Sequence[str] | None = None) -> None:
    """Run the tool.

    Args:
        arguments: Arguments of the command line; None for the process's.

    Raises:
        SystemExit: They are wrong.
    """
    parser = argparse.ArgumentParser(
        description="Give a symbolic dimension, or the shape of an input, numbers. Name one of the two."
    )
    parser.add_argument("--dim_param", help="name of the symbolic dimension")
    parser.add_argument("--dim_value", type=int, help="its size, 1 or more")
    parser.add_argument("--input_name", help="name of the input")
    parser.add_argument("--input_shape", type=_shape, help="its shape, e.g. 1,3,256,256")
    parser.add_argument("input_model", type=Path, help="model to read")
    parser.add_argument("output_model", type=Path, help="file to write")
    parsed = parser.parse_args(arguments)
    if bool(parsed.dim_param) == bool(parsed.input_name):
        parser.error("name either --dim_param or --input_name")
    if parsed.dim_param and (parsed.dim_value or 0) < 1:
        parser.error("--dim_param needs a --dim_value of 1 or more")
    if parsed.input_name and not parsed.input_shape:
        parser.error("--input_name needs an --input_shape")
    model = onnx.load(str(parsed.input_model.resolve(strict=True)))
    if parsed.dim_param:
        make_dim_param_fixed(model.graph, parsed.dim_param, parsed.dim_value)
    else:
        make_input_shape_fixed(model.graph, parsed.input_name, parsed.input_shape)
    fix_output_shapes(model)
    onnx.save(model, str(parsed.output_model.resolve()))


def _shape(text: str) -> list[int]:
    sizes = [int(part) for part in text.split(",")]
    if min(sizes) < 1:
        raise argparse.ArgumentTypeError("every size is 1 or more")
    return sizes
