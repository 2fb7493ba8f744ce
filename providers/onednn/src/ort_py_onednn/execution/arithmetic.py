"""From the precision that a session asks for to the types that its regions compute in on this CPU.

Comes before `graph.precision`, which gives each operation its type. It uses the library, but no graph.
"""

from __future__ import annotations

from functools import cache

from ort_py.dtypes import DataType
from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.half_floats import converts
from ort_py_onednn.binding.instructions import native_elements, needed_instructions
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.primitive import Unimplemented
from ort_py_onednn.execution.elements import ELEMENTS
from ort_py_onednn.graph.precision import FLOATING

__all__ = ["PRECISIONS", "computed_types", "converted_types", "precision_refusal", "product_type"]

PRECISIONS = {"float32": F32, "bfloat16": Element.BF16, "float16": Element.F16}
"""Names of precisions as sessions have them."""


def precision_refusal(precision: str, library: Library) -> str | None:
    """Explain why this CPU does not compute in a precision, or return None if it does."""
    element = PRECISIONS[precision]
    if element in native_elements(library.isa):
        return None
    return f"{precision} needs {needed_instructions(element)}; this CPU has {library.instructions}"


def product_type(precision: str, library: Library) -> Element:
    """The type of the products of float32 values; float32 where the CPU does not compute in the precision."""
    wanted = PRECISIONS[precision]
    return wanted if wanted in native_elements(library.isa) else F32


def computed_types(library: Library) -> frozenset[DataType]:
    """Floating types that the CPU computes in: models stored in one of them run in it."""
    native = native_elements(library.isa)
    return frozenset(kind for kind, element in ELEMENTS.items() if element in native)


@cache
def converted_types() -> frozenset[DataType]:
    """Floating types that regions read and write here without being slow, be it only to convert them."""
    return frozenset(kind for kind, element in ELEMENTS.items() if element in FLOATING and _converts(element))


def _converts(element: Element) -> bool:
    if element == F32:
        return True
    short, wide = Desc.plain((16,), element), Desc.plain((16,))
    try:
        made = [(primitives.reorder(*pair), *pair) for pair in ((short, wide), (wide, short))]
    except Unimplemented:
        return False
    library = engine().library
    return all(reorder.is_tuned or converts(library, one.dtype, other.dtype) for reorder, one, other in made)
