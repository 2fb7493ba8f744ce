"""``python -m ort_py.tools.remove_initializer_from_input``: make initializers that may be fed plain constants."""

from ort_py.compat.absent import absent_names
from ort_py.compat.tools.remove_initializer_from_input import *  # noqa: F403 - every public name
from ort_py.compat.tools.remove_initializer_from_input import main

__getattr__ = absent_names(__name__)

if __name__ == "__main__":
    main()
