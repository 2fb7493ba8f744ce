"""``python -m ort_py.tools.update_onnx_opset``: convert a model to a newer version of the standard operators."""

from ort_py.compat.absent import absent_names
from ort_py.compat.tools.update_onnx_opset import *  # noqa: F403 - every public name
from ort_py.compat.tools.update_onnx_opset import update_onnx_opset_helper

__getattr__ = absent_names(__name__)

if __name__ == "__main__":
    update_onnx_opset_helper()
