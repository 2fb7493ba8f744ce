"""NumPy, torch and ONNX types of a session's inputs and outputs."""

from ort_py.compat.absent import absent_names
from ort_py.compat.type_helper import *  # noqa: F403 - every public name

__getattr__ = absent_names(__name__)
