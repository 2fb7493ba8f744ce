"""Parameters that decide whether an island pays and in which order providers serve: rates, and the gain required.

Data, with one rule. Comes before `work_table`, which prices a graph with it. A provider's own `Claim.cost_us` and
`estimate_cost` beat the rates here.
"""

from __future__ import annotations

from dataclasses import field, replace

from ort_py.lazy_dataclass import dataclass
from ort_py.partition.rates import Calibration

EXPLICIT_ORDER_MARGIN = 2.0
"""`CostModel.order_margin` where the user named the providers in their order: a strong wish."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """Parameters for the comparison of placements.

    Attributes:
        calibration: Costs of calls, arithmetic and copies.
        island_margin: An island is kept where what it replaces takes so many times as long. Estimates are rough, and
            compiling an island takes time too.
        order_margin: Another order of providers than that of the session has to be so many times as fast.
        weighs: Whether anything is weighed; where not, every claim is kept in the session's order.
    """

    calibration: Calibration = field(default_factory=Calibration)
    island_margin: float = 1.1
    order_margin: float = 1.25
    weighs: bool = True


def always_pays() -> CostModel:
    """Keeps every island: for tests, and for users who know better."""
    return CostModel(weighs=False)


def transfer_costs(calibration: Calibration | None = None, *, explicit: bool = False) -> CostModel:
    """Compares the time saved with the time the copies at the borders take.

    Args:
        calibration: Measurements of this machine; orders of magnitude where None.
        explicit: Whether the user named the providers in this order: `EXPLICIT_ORDER_MARGIN` counts then.
    """
    model = CostModel(calibration or Calibration())
    return replace(model, order_margin=EXPLICIT_ORDER_MARGIN) if explicit else model
