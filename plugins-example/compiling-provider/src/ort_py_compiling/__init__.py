"""CompilingExecutionProvider: chains of element-wise operators as one function. `plugin` registers it."""
