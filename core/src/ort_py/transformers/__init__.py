"""onnxruntime's optimiser of transformer models: it can be imported, and what it would do is not there yet.

Sessions fuse the same patterns when they load a model. Nothing here changes `sys.path`, as onnxruntime's does.
"""

from ort_py.compat.absent import absent_names, find_absent_modules

__getattr__ = absent_names(__name__)
find_absent_modules()
