"""onnxruntime's optimiser of transformer models: it can be imported, and what it would do is not there yet.

Sessions fuse the same patterns when they load a model. Nothing here changes `sys.path`, as onnxruntime's does.
"""
