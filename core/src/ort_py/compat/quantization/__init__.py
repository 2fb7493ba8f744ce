"""The parts of onnxruntime's quantisation tools that exist: enumerations, settings and calibrated ranges."""
