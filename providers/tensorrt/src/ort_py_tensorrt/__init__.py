"""TensorRT engines for parts of a model: TensorrtExecutionProvider, and NvTensorRTRTXExecutionProvider.

`plugin` is the target of the entry points; nothing else is imported before a session asks for one of the providers.
"""
