"""oneDNN's C API from Python: the library, its descriptors and primitives. Knows nothing of ONNX."""
