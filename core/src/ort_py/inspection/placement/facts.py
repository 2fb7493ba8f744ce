"""The record of one node's placement. `report` makes the records, and `annotated` writes them to a model."""

from __future__ import annotations

from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NodePlacement:
    """Place of one node.

    Attributes:
        provider: The provider that runs it; ``core`` for control flow.
        runner: ``kernel``, ``region`` or ``control flow``.
        region: Name of the compiled region it is part of, else ``""``.
        reason: Why this provider took it.
        refusals: (provider, reason) of each provider asked before.
        path: Names of the enclosing control-flow nodes.
    """

    node: str
    op_type: str
    domain: str
    provider: str
    runner: str
    region: str
    reason: str
    refusals: tuple[tuple[str, str], ...]
    path: tuple[str, ...]
