"""NativeExecutionProvider: chains of element-wise operators in C. `plugin` registers it, `provider` compiles."""
