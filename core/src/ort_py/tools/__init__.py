"""onnxruntime's tools that change a model's file and are small: shapes made fixed, opset converted, inputs removed.

Each runs as ``python -m ort_py.tools.NAME`` and has the functions that programs import. The others are not there:
`optimize_onnx_model` is `SessionOptions.optimized_model_filepath`, `symbolic_shape_infer` onnx's own shape inference.
"""

from ort_py.compat.absent import absent_names, find_absent_modules

__getattr__ = absent_names(__name__)
find_absent_modules()
