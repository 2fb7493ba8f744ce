"""Converting a model to float16. Not there yet."""

from __future__ import annotations

from ort_py.compat.absent import absent_names
from ort_py.compat.not_yet import missing_function

__all__ = ["convert_float_to_float16"]

convert_float_to_float16 = missing_function(
    "transformers.float16.convert_float_to_float16",
    "Export the model in float16, or let a provider compute in it: SessionOptions.precision = 'float16'.",
)

__getattr__ = absent_names(__name__)
