"""OnnxruntimeExecutionProvider: regions of a model run in onnxruntime. `plugin` registers it, `provider` runs it."""
