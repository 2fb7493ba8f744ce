"""onnxruntime's optimiser of transformer models, which can be imported but does not optimise yet.

Sessions fuse the same patterns when they load a model. Nothing here changes `sys.path`, as onnxruntime's does.
"""

from ort_py.compat.absent import absent_names, find_absent_modules

__getattr__ = absent_names(__name__)
find_absent_modules()
