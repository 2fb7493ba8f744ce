"""Constants of matrix products in four bits or fewer: the class that writes such models is not there yet."""

from __future__ import annotations

from ort_py.compat.absent import absent_names
from ort_py.compat.not_yet import missing_class

__all__ = [
    "DefaultWeightOnlyQuantConfig",
    "GPTQWeightOnlyQuantConfig",
    "HQQWeightOnlyQuantConfig",
    "KQuantWeightOnlyQuantConfig",
    "MatMulNBitsQuantizer",
    "NVAWQWeightOnlyQuantConfig",
    "RTNWeightOnlyQuantConfig",
    "WeightOnlyQuantConfig",
]

_ELSEWHERE = "Write the model with onnxruntime or its generation builder; MatMulNBits runs here."

WeightOnlyQuantConfig = missing_class("quantization.matmul_nbits_quantizer.WeightOnlyQuantConfig", _ELSEWHERE)
DefaultWeightOnlyQuantConfig = missing_class(
    "quantization.matmul_nbits_quantizer.DefaultWeightOnlyQuantConfig", _ELSEWHERE
)
RTNWeightOnlyQuantConfig = missing_class("quantization.matmul_nbits_quantizer.RTNWeightOnlyQuantConfig", _ELSEWHERE)
KQuantWeightOnlyQuantConfig = missing_class(
    "quantization.matmul_nbits_quantizer.KQuantWeightOnlyQuantConfig", _ELSEWHERE
)
HQQWeightOnlyQuantConfig = missing_class("quantization.matmul_nbits_quantizer.HQQWeightOnlyQuantConfig", _ELSEWHERE)
GPTQWeightOnlyQuantConfig = missing_class("quantization.matmul_nbits_quantizer.GPTQWeightOnlyQuantConfig", _ELSEWHERE)
NVAWQWeightOnlyQuantConfig = missing_class("quantization.matmul_nbits_quantizer.NVAWQWeightOnlyQuantConfig", _ELSEWHERE)
MatMulNBitsQuantizer = missing_class("quantization.matmul_nbits_quantizer.MatMulNBitsQuantizer", _ELSEWHERE)

__getattr__ = absent_names(__name__)
