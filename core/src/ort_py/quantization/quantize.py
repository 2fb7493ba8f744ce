"""Settings of quantisation, and the functions that would quantise."""

from ort_py.compat.absent import absent_names
from ort_py.compat.quantization.quantize import *  # noqa: F403 - every public name

__getattr__ = absent_names(__name__)
