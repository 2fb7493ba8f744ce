"""Assigns every node of a model to a provider, and expands nodes that no provider runs.

Between `assembly`, which compiles and plans what is decided here, and the room `partition`, which decides. A session
that is restored from the cache does not import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ort_py.contracts import IExecutionProvider
from ort_py.errors import KernelNotFoundError, operator_title
from ort_py.graph.ir import Model, Node
from ort_py.kernels.registry import KernelRegistry
from ort_py.options import SessionOptions
from ort_py.partition.assignment import Assignment
from ort_py.partition.checked_regions import Barred, bar_unchecked, gates_of
from ort_py.partition.cost_model import CostModel, always_pays, transfer_costs
from ort_py.partition.partitioner import partition
from ort_py.partition.rates import Calibration

if TYPE_CHECKING:
    from ort_py.graph.checking.schema import SchemaRegistry

EXPANSION_ROUNDS = 8
"""Rounds in which nodes that no provider runs are replaced by the bodies of their functions, which may hold function
operators again."""


def assign(
    model: Model,
    providers: Sequence[IExecutionProvider],
    kernels: KernelRegistry,
    options: SessionOptions,
    *,
    schemas: Callable[[], SchemaRegistry],
    calibration: Calibration,
    explicit: bool,
    on_provider_error: Callable[[str, Exception, str], None],
) -> Assignment:
    """Find a provider for every node.

    Args:
        model: The model; nodes that no provider runs are replaced by their function bodies.
        providers: The session's providers, in rank order.
        schemas: Makes the operator schemas, when they are first needed.
        explicit: Whether the user named the providers in this order.
        on_provider_error: Called for a provider that failed in a survey: (provider, error, node).

    Raises:
        KernelNotFoundError: No provider runs some nodes; lists every refusal.
    """
    cost_model: CostModel = always_pays()
    if options.cost_model != "always":
        cost_model = transfer_costs(calibration, explicit=explicit)

    def report_error(provider: str, error: Exception) -> None:
        on_provider_error(provider, error, "")

    barred: Barred = {}
    rounds = EXPANSION_ROUNDS
    while rounds:
        assignment = partition(model.graph, providers, kernels, cost_model, report_error, barred)
        regions = (region for regions in assignment.regions.values() for region in regions)
        assignment.gates = gates_of(regions)
        if bar_unchecked(assignment.gates, providers, barred, strict=not options.limits.unchecked_regions):
            continue  # it comes to an end: each time, another node is barred from a provider
        rounds -= 1
        if not assignment.unassigned:
            return assignment
        from ort_py.engine.preparation import expand_functions  # imports onnx

        if not expand_functions(model, assignment.unassigned, schemas(), options.limits):
            break
    raise _no_provider(assignment.unassigned)


def _no_provider(unassigned: Mapping[Node, tuple[tuple[str, str], ...]]) -> KernelNotFoundError:
    shown = list(unassigned.items())[:10]
    why = [
        f"{node.location}: " + "; ".join(f"{provider}: {reason}" for provider, reason in refusals)
        for node, refusals in shown
    ]
    if len(unassigned) > len(shown):
        why.append(f"and {len(unassigned) - len(shown)} more")
    first = shown[0][0]
    return KernelNotFoundError(
        f"No provider of this session runs {len(unassigned)} node(s), the first is "
        f"{operator_title(first.op_type, first.domain)}({first.since_version}).",
        where=first.location,
        why=why,
        fix="Install a provider that has the operator, or contribute a kernel (see docs/plugin-author).",
    )
