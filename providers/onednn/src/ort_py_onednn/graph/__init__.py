"""From ONNX nodes to fused operations: what is claimed, and what a region computes. It is independent of shapes and
libraries.
"""
