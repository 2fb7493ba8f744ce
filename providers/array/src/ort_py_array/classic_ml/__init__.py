"""The operators of the domain ai.onnx.ml: linear models, trees, support vector machines, features and label maps.

Families are modules of this package, listed in ``ort_py_array.FAMILIES`` like all others. Strings and maps exist on the
host only: kernels that take or make them declare host inputs and outputs.
"""
