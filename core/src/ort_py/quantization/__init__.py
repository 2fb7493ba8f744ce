"""onnxruntime's quantisation tools: enumerations, settings and data classes are here; what quantises is not there yet.

Applications that only name things from here, or read and write calibrated ranges, work; calling a function that is
not there raises `NotYetError` and says what to use instead. Quantised models themselves run.
"""

from ort_py.compat.absent import absent_names, find_absent_modules
from ort_py.compat.not_yet import missing_class
from ort_py.quantization import matmul_nbits_quantizer, preprocess
from ort_py.quantization.calibrate import (
    CalibraterBase,
    CalibrationDataReader,
    CalibrationMethod,
    MinMaxCalibrater,
    TensorData,
    TensorsData,
    create_calibrator,
    load_tensors_data,
    save_tensors_data,
)
from ort_py.quantization.qdq_quantizer import QDQQuantizer
from ort_py.quantization.quant_utils import QuantFormat, QuantizationMode, QuantType, write_calibration_table
from ort_py.quantization.quantize import (
    DynamicQuantConfig,
    StaticQuantConfig,
    get_qdq_config,
    quantize,
    quantize_dynamic,
    quantize_static,
)
from ort_py.quantization.shape_inference import quant_pre_process

CudaQuantizer = missing_class(
    "quantization.CudaQuantizer", "Quantise with onnxruntime in an environment of its own, and run the result here."
)

__all__ = [
    "CalibraterBase",
    "CalibrationDataReader",
    "CalibrationMethod",
    "CudaQuantizer",
    "DynamicQuantConfig",
    "MinMaxCalibrater",
    "QDQQuantizer",
    "QuantFormat",
    "QuantType",
    "QuantizationMode",
    "StaticQuantConfig",
    "TensorData",
    "TensorsData",
    "create_calibrator",
    "get_qdq_config",
    "load_tensors_data",
    "matmul_nbits_quantizer",
    "preprocess",
    "quant_pre_process",
    "quantize",
    "quantize_dynamic",
    "quantize_static",
    "save_tensors_data",
    "write_calibration_table",
]

__getattr__ = absent_names(__name__)
find_absent_modules()
