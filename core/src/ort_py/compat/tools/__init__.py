"""onnxruntime's small tools that change a model's file: shapes made fixed, opset converted, inputs removed."""
