"""Operators of onnxruntime's domain ``com.microsoft`` that exported and optimised models carry.

ONNX does not define them: their schemas stand in the package `schemas` beside them, from onnxruntime's page
``docs/ContribOperators.md``. Kernels are modules of this package by family, listed in ``ort_py_array.FAMILIES`` like
all others; where ONNX has the same operator, they call its code.
"""
