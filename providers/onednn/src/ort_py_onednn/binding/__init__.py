"""OneDNN's C API from Python: the library, its descriptors and primitives. It is independent of ONNX."""
