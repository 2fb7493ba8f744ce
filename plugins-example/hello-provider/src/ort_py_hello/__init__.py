"""HelloExecutionProvider: the smallest execution provider for ort-py. `plugin` registers it, `provider` runs it."""
