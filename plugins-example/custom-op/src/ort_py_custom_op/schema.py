"""The schema of the operator: inputs, outputs, attributes, types, and the shape of its result."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import ALL_FLOATS, FormalParameter, NodeSpec, OperatorSchema
from ort_py.dtypes import TensorType, ValueType
from ort_py.errors import InvalidGraph

__all__ = ["DOMAIN", "SCHEMAS"]

DOMAIN = "org.example.distance"
"""A domain of one's own, written backwards like a web address, never collides with anybody's."""


def infer(node: NodeSpec) -> Sequence[ValueType | None]:
    """[N, D] and [M, D] give [N, M], with whatever is known of N and M.

    Raises:
        InvalidGraph: The points have different numbers of coordinates: said when the model is loaded.
    """
    x, y = (value.type if value is not None else None for value in node.inputs[:2])
    if not isinstance(x, TensorType) or not isinstance(y, TensorType):
        return [None]
    if x.shape is None or y.shape is None:
        return [TensorType(x.data_type, None)]
    if len(x.shape) != 2 or len(y.shape) != 2:
        raise InvalidGraph(
            f"PairwiseDistance takes two matrices of points, not arrays of shapes {x.shape} and {y.shape}.",
            where=node.location,
        )
    if isinstance(x.shape[1], int) and isinstance(y.shape[1], int) and x.shape[1] != y.shape[1]:
        raise InvalidGraph(
            f"PairwiseDistance is given points with {x.shape[1]} and with {y.shape[1]} coordinates.",
            where=node.location,
        )
    return [TensorType(x.data_type, (x.shape[0], y.shape[0]))]


SCHEMAS = [
    OperatorSchema(
        "PairwiseDistance",
        DOMAIN,
        since_version=1,
        inputs=(FormalParameter("x", "T"), FormalParameter("y", "T")),
        outputs=(FormalParameter("distances", "T"),),
        attributes={"squared": 0},
        types={"T": ALL_FLOATS},
        infer=infer,
    )
]
