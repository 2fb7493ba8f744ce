"""Functions on ONNX models that the command-line tools are made of."""

from ort_py.compat.absent import absent_names
from ort_py.compat.tools.model_utils import *  # noqa: F403 - every public name

__getattr__ = absent_names(__name__)
