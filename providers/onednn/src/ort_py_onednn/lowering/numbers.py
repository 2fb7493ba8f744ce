"""In which numbers a product computes: types of its factors and result, and what integers among them stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding.constants import INTEGERS, Element
from ort_py_onednn.binding.primitive import UNSCALED, Scaling
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["Numbers", "floating"]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Types and scales of a product.

    Attributes:
        source: Type of the first factor.
        weights: Type of the second.
        result: Type of the result.
        scaling: What its integers stand for.
        given: The values of the arguments that `scaling` adds.
    """

    source: Element
    weights: Element
    result: Element
    scaling: Scaling = UNSCALED
    given: Mapping[int, Value] = field(default_factory=dict)

    @property
    def keeps_layout(self) -> bool:
        """True if weights may be offered in the layout that they were packed in before. For integers some layouts have
        sums behind the data, others have not, and oneDNN takes the wrong kind without complaint and computes nonsense.
        """
        return self.weights not in INTEGERS


def floating(planner: Planner) -> Numbers:
    """The types that the planner says, of numbers that stand for themselves."""
    factor = planner.factor_type
    return Numbers(factor, factor, planner.dtype or factor)
