"""Back to ONNX: `serialize` writes models and regions, `protos` their parts, `node_versions` nodes of another opset."""
