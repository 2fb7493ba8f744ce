"""Changes of a model before it is planned: the transforms of the session's level, and functions in place of operators
that no provider runs.

Called by `assembly`, and imported only where a graph is really changed: a session restored from the cache already has
its final graph.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.contracts import Array, IExecutionProvider, KernelContext, NodeSpec, Transform, TransformContext
from ort_py.devices import HOST
from ort_py.engine.contributions import Contributions
from ort_py.engine.provider_wishes import wishes
from ort_py.engine.unfusing import write_out
from ort_py.errors import EngineError
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.validate import check_types
from ort_py.graph.editing.edit import Editor
from ort_py.graph.editing.edit_state import EditState
from ort_py.graph.ir import Model, Node, walk
from ort_py.graph.reading.names import Names
from ort_py.graph.typing.shapes import infer_types
from ort_py.kernels.binding import bind_kernel, make_context
from ort_py.kernels.blocks import WORTH_CUTTING
from ort_py.kernels.registry import KernelRegistry
from ort_py.kernels.services import KernelServices
from ort_py.limits import Limits, checking_time
from ort_py.limits.limits import INITIALIZER_BYTES_ALWAYS_ALLOWED
from ort_py.logs import lazy_logger
from ort_py.options import SessionOptions
from ort_py.transforms.builtin import builtin_transforms
from ort_py.transforms.pipeline import run_transforms
from ort_py.transforms.report import OptimisationReport
from ort_py.transforms.switches import switched_off

_LOG = lazy_logger("ort_py.session")


def transforms_of(contributions: Contributions, providers: Sequence[IExecutionProvider]) -> list[Transform]:
    """All transforms of a session, of any level, in the order in which those of one level run."""
    # The wishes of providers come first, so that fusions see the element types that are computed in.
    return [*wishes(providers, contributions.kernels), *builtin_transforms(), *contributions.transforms]


def optimise(
    model: Model,
    options: SessionOptions,
    schemas: SchemaRegistry,
    contributions: Contributions,
    services: KernelServices,
    providers: Sequence[IExecutionProvider],
    named: Collection[str] = (),
) -> OptimisationReport:
    """Run the graph transforms of the session's level.

    Args:
        contributions: Transforms and kernels of providers and plug-ins.
        providers: Those of the session, in rank order.
        named: Names of those that the user asked for, without the CPU provider's role.

    Raises:
        InvalidArgument: The options switch off a transform whose name is nearly one that exists.
    """
    transforms = transforms_of(contributions, providers)
    disabled, notes = switched_off(options.disabled_transforms, [one.name for one in transforms])
    for line in notes:
        _LOG.warning("%s", line)
    with checking_time(model.budget.check_kernel):
        report = run_transforms(
            model,
            transforms,
            int(options.graph_optimization_level),
            KernelEvaluator(providers, contributions.kernels, services, _held(model)),
            schemas=schemas,
            disabled=disabled,
        )
    notes += write_out(model, providers, named, contributions.kernels, schemas)
    report.notes = tuple(notes)
    return report


def _held(model: Model) -> int:
    """Bytes of the model's constants."""
    weights = [value.weight for graph in walk(model.graph) for value in graph.initializers.values()]
    return sum(weight.nbytes for weight in weights if weight is not None)


def expand_functions(model: Model, nodes: Mapping[Node, object], schemas: SchemaRegistry, limits: Limits) -> bool:
    """Replace nodes by the functions they carry or their operators are defined by; False where there is none.

    A node that a transform made of several gets those back; ONNX defines some operators by others.
    """
    from ort_py.graph.reading.schema_functions import expand_schema_function  # few models need it

    state = EditState(model, schemas)
    others = [node for node in nodes if not (state.editors.get(node.graph) or Editor(node.graph, state)).expand(node)]
    names = Names.of(model)
    expanded = [expand_schema_function(node, schemas, names=names, limits=limits) for node in others]
    if any(expanded):
        infer_types(model, schemas)
        check_types(model, schemas)
    return len(others) < len(nodes) or any(expanded)


class KernelEvaluator(TransformContext):
    """Evaluates with the provider that would run a node last: the completing one is asked first.

    Args:
        providers: The session's providers in rank order.
        held: Bytes of the model's constants.
    """

    def __init__(
        self, providers: Sequence[IExecutionProvider], kernels: KernelRegistry, services: KernelServices, held: int = 0
    ) -> None:
        self._providers = [provider for provider in reversed(providers) if provider.device == HOST]
        self._kernels = kernels
        limits = services.limits
        self._services = KernelServices(
            limits, services.parallel_for, services.seed, timed=limits.load_seconds is not None
        )
        self._left = _room(services.limits, held)

    def evaluate(self, node: NodeSpec, inputs: Sequence[Array | None]) -> Sequence[Array] | None:
        for provider in self._providers:
            match = self._kernels.find(provider.name, node)
            if match.kernel is None:
                continue
            # A kernel may prepare what it knows, and then a call cannot be cut: large inputs stay ordinary inputs here.
            constants = {
                index: value for index, value in enumerate(inputs) if value is not None and value.size < WORTH_CUTTING
            }
            bound = bind_kernel(node, match.kernel, provider, self._services, constants)
            with np.errstate(all="ignore"):
                result: Any = bound.call(*inputs)
            return [result] if len(node.outputs) == 1 else list(result)
        return None

    def kernel_context(self, node: NodeSpec) -> KernelContext:
        if not self._providers:
            raise EngineError(
                "No provider of this session computes on the host.",
                where=node.location,
                why="the kernel context for transforms requires one",
                fix="Add CPUExecutionProvider to the providers.",
            )
        return make_context(node, self._providers[0], self._services)

    def reserve(self, nbytes: int) -> bool:
        if nbytes > self._left:
            return False
        self._left -= nbytes
        return True


def _room(limits: Limits, held: int) -> int:
    """Bytes that constants may grow by: as many as a file of no size may hold, and a part of what the session has left.

    Computed anew in each run they would take that memory too, but one after the other.
    """
    bounds = [limits.initializer_cap(0), limits.single_allocation_bytes, INITIALIZER_BYTES_ALWAYS_ALLOWED]
    if limits.total_memory_bytes is not None:
        bounds.append(max(0, limits.total_memory_bytes - held) // 4)
    return min(bound for bound in bounds if bound is not None)
