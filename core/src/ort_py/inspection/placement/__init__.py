"""A session's placement: who runs each node and why, as a value, a table, JSON, an annotated model and a page.

In reading order: `report` is what users hold; `flow` reads from the graph what flows between nodes; `islands` and
`merging` compute on it; `plain` makes JSON, `annotated` an ONNX file, `page` a web page with the picture that
`layout` lays out. Only `report` is loaded with a session.
"""

from ort_py.inspection.placement.facts import NodePlacement
from ort_py.inspection.placement.report import Placement, placement_of

__all__ = ["NodePlacement", "Placement", "placement_of"]
