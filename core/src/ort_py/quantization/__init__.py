"""onnxruntime's quantisation tools: enumerations, settings and data classes are here; what quantises is not there yet.

Applications that only name things from here, or read and write calibrated ranges, work; calling a function that is
not there raises `NotYetError` and says what to use instead. Quantised models themselves run.
"""

from ort_py.compat.absent import absent_names, find_absent_modules
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
from ort_py.quantization.quant_utils import QuantFormat, QuantizationMode, QuantType, write_calibration_table
from ort_py.quantization.quantize import (
    DynamicQuantConfig,
    StaticQuantConfig,
    get_qdq_config,
    quantize,
    quantize_dynamic,
    quantize_static,
)

__all__ = [
    "CalibraterBase",
    "CalibrationDataReader",
    "CalibrationMethod",
    "DynamicQuantConfig",
    "MinMaxCalibrater",
    "QuantFormat",
    "QuantType",
    "QuantizationMode",
    "StaticQuantConfig",
    "TensorData",
    "TensorsData",
    "create_calibrator",
    "get_qdq_config",
    "load_tensors_data",
    "quantize",
    "quantize_dynamic",
    "quantize_static",
    "save_tensors_data",
    "write_calibration_table",
]

__getattr__ = absent_names(__name__)
find_absent_modules()
