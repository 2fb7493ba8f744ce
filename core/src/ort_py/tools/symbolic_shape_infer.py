"""Shape inference under the name by which applications import onnxruntime's."""

from ort_py.compat.absent import absent_names
from ort_py.compat.tools.symbolic_shape_infer import *  # noqa: F403 - every public name

__getattr__ = absent_names(__name__)
