"""From ONNX nodes to fused operations: what is claimed, and what a region computes. Knows no shapes and no library."""
