"""CUDAExecutionProvider for ort-py: every operator on NVIDIA's GPUs, the heavy ones by NVIDIA's libraries.

Discovery imports `ort_py_cuda.plugin` only; CuPy and NVIDIA's libraries are loaded when a session asks for it.
"""
