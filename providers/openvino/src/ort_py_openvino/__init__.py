"""OpenVINOExecutionProvider for ort-py: whole regions compiled by OpenVINO for Intel's CPUs, GPUs and NPUs.

Discovery imports `ort_py_openvino.plugin` only; OpenVINO is imported when a session asks for the provider.
"""
