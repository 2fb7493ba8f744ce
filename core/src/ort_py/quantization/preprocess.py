"""`quant_pre_process` where older applications import it from."""

from ort_py.compat.absent import absent_names
from ort_py.quantization.shape_inference import quant_pre_process

__all__ = ["quant_pre_process"]

__getattr__ = absent_names(__name__)
