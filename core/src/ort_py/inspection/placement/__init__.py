"""A session's placement: who runs each node and why, as a value, a table, JSON, an annotated model and a page.

In reading order: `report` has the object that users hold; `flow` reads from the graph which values flow between nodes;
`islands` and `merging` compute on it; `annotated` makes an ONNX file, and `page` a web page with the `picture` that
`layered` arranges. Nothing is loaded before a session's placement is read, and then only `report`.
"""

from ort_py.inspection.placement.facts import NodePlacement
from ort_py.inspection.placement.report import Placement

__all__ = ["NodePlacement", "Placement"]
