"""``python -m ort_py.tools.make_dynamic_shape_fixed``: give a symbolic dimension or an input's shape numbers."""

from ort_py.compat.absent import absent_names
from ort_py.compat.tools.make_dynamic_shape_fixed import *  # noqa: F403 - every public name
from ort_py.compat.tools.make_dynamic_shape_fixed import make_dynamic_shape_fixed_helper

__getattr__ = absent_names(__name__)

if __name__ == "__main__":
    make_dynamic_shape_fixed_helper()
