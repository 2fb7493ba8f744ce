"""Operators of com.microsoft, which onnxruntime's optimiser and exporters write."""
