"""Schemas of the operators in `contrib`, by family; a provider that runs the library contributes all of them.

A family is a module here with a list ``SCHEMAS`` and a name below. Importing this package imports no kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from ort_py.contracts import OperatorSchema

__all__ = ["FAMILIES", "schemas"]

FAMILIES = (
    "recurrent",
    "quantization",
    "quantized_elementwise",
    "activations",
    "products",
    "normalization",
    "general",
    "block_quantized",
    "experts",
    "text",
    "attention",
    "sequence_mixing",
    "generation",
)


def schemas() -> Iterator[OperatorSchema]:
    """The schemas of all families."""
    for name in FAMILIES:
        yield from import_module(f"{__name__}.{name}").SCHEMAS
