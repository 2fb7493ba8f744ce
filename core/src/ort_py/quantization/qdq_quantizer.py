"""The class that writes pairs of quantising operators. Not there yet."""

from ort_py.compat.absent import absent_names
from ort_py.compat.not_yet import missing_class

__all__ = ["QDQQuantizer"]

QDQQuantizer = missing_class(
    "quantization.QDQQuantizer", "Quantise with onnxruntime in an environment of its own, and run the result here."
)

__getattr__ = absent_names(__name__)
