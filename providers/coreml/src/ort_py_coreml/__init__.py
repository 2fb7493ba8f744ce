"""CoreMLExecutionProvider: regions that Core ML runs on Apple's processors, GPUs and Neural Engine.

`plugin` is the target of the entry point; nothing else is imported before a session asks for the provider.
"""
