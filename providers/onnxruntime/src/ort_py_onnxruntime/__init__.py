"""The bridge: regions of a model run in an installed onnxruntime, on any of its execution providers.

Discovery imports `ort_py_onnxruntime.plugin` only; onnxruntime is loaded when a session asks for one of its providers.
"""
