"""Run one kernel on given inputs, without a session: what a kernel's own tests need.

Of the engine only the matching of kernels is involved: no graph, no planning, no copies. `reference_outputs` asks
`onnx.reference` for the same node, so that a kernel's result has an oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array, NodeSpec, ValueSpec
from ort_py.contracts.kernel import KernelContext, KernelDef, SubgraphCallable
from ort_py.contracts.schema import OperatorSchema
from ort_py.dtypes import data_type_of, value_type_of
from ort_py.errors import KernelNotFoundError
from ort_py.graph.checking.resolved_schema import formal_at
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.kernels.registry import match_kernel


class LocalKernelContext(KernelContext):
    """A context for one kernel on the calling thread, without limits.

    Args:
        node: The node.
        xp: Array module.
        constants: Inputs known when the kernel is bound, by position.
        subgraphs: Stand-ins for the graphs of the node, by attribute: any function that returns a list.
    """

    __slots__ = ("_constants", "_subgraphs")

    def __init__(
        self,
        node: NodeSpec,
        xp: Any = np,
        constants: Mapping[int, Array] | None = None,
        subgraphs: Mapping[str, SubgraphCallable] | None = None,
    ) -> None:
        super().__init__(node, xp)
        self._constants = dict(constants or {})
        self._subgraphs = dict(subgraphs or {})

    def constant(self, index: int) -> Array | None:
        return self._constants.get(index)

    def check_allocation(self, shape: Sequence[int], dtype: Any) -> None:
        return None

    def parallel_for(self, rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        fn(0, rows)

    def random_generator(self, seed: float | None) -> Any:
        return np.random.default_rng(None if seed is None else int(np.float32(seed).view(np.uint32)))

    def subgraph(self, name: str) -> SubgraphCallable | None:
        return self._subgraphs.get(name)


def make_node_spec(
    op_type: str,
    inputs: Sequence[Any],
    *,
    domain: str = "",
    opset: int | None = None,
    outputs: int = 1,
    output_mask: Sequence[bool] | None = None,
    attributes: Mapping[str, Any] | None = None,
    schemas: Iterable[OperatorSchema] = (),
) -> NodeSpec:
    """A `NodeSpec` as the engine would make it for these input values.

    Args:
        op_type: Operator.
        inputs: Input values; None where an optional input is absent.
        domain: Operator domain.
        opset: Opset of the domain; the newest known where None.
        outputs: Number of outputs.
        output_mask: Whether each output is present, where not all are.
        attributes: Attributes as in `NodeSpec`.
        schemas: Schemas of operators that ONNX does not define.
    """
    mask = tuple(output_mask) if output_mask is not None else (True,) * outputs
    values = tuple(None if x is None else ValueSpec(f"x{i}", value_type_of(x)) for i, x in enumerate(inputs))
    registry = SchemaRegistry(schemas)
    version = opset if opset is not None else registry.newest(domain)
    schema = registry.find(op_type, domain, version)
    bindings: dict[str, str] = {}
    for index, value in enumerate(values):
        formal = formal_at(schema.inputs, index) if schema is not None else None
        if formal is not None and value is not None and value.type is not None:
            bindings.setdefault(formal.type, str(value.type))
    return NodeSpec(
        index=0,
        name=f"{op_type}_under_test",
        op_type=op_type,
        domain=domain,
        since_version=schema.since_version if schema is not None else 1,
        inputs=values,
        outputs=tuple(ValueSpec(f"y{i}") if present else None for i, present in enumerate(mask)),
        attributes=dict(attributes or {}),
        type_bindings=bindings,
        opset_version=version,
    )


def find_kernel(definitions: Iterable[KernelDef], node: NodeSpec) -> KernelDef:
    """Choose the kernel for a node as the engine would.

    Raises:
        KernelNotFoundError: No candidate covers the version and the types.
    """
    candidates = [one for one in definitions if (one.op_type, one.domain) == (node.op_type, node.domain)]
    match = match_kernel(candidates, node)
    if match.kernel is None:
        raise KernelNotFoundError(
            f"No kernel for {node.op_type}({node.since_version}).",
            where=node.location,
            why=match.refusals,
            fix="Declare a kernel that covers the version and the types, or test others.",
        )
    return match.kernel


def run_kernel(
    definitions: Iterable[KernelDef],
    op_type: str,
    inputs: Sequence[Any],
    *,
    xp: Any = np,
    domain: str = "",
    opset: int | None = None,
    outputs: int = 1,
    output_mask: Sequence[bool] | None = None,
    constants: Sequence[int] = (),
    schemas: Iterable[OperatorSchema] = (),
    subgraphs: Mapping[str, SubgraphCallable] | None = None,
    **attributes: Any,
) -> list[Any]:
    """Choose the kernel among `definitions` as the registry would, bind it and call it.

    Args:
        definitions: Candidates.
        op_type: Operator.
        inputs: Input values, of `xp`; host inputs too.
        xp: Array module.
        domain: Operator domain.
        opset: Opset of the domain; the newest known where None.
        outputs: Number of outputs asked for.
        output_mask: Whether each output is present, where not all are.
        constants: Indices of the inputs that the context offers as known at planning.
        schemas: Schemas of operators that ONNX does not define.
        subgraphs: Functions that stand in for the graphs of the node, by attribute: each takes what the kernel gives,
            and returns a list.
        **attributes: The node's attributes.

    Returns:
        One entry per output of the node.

    Raises:
        KernelNotFoundError: No candidate covers the version and the types.
        AssertionError: An output shares memory with an input, and the kernel does not declare it.
    """
    inputs = list(inputs)
    while inputs and inputs[-1] is None:  # the engine does not pass absent inputs at the end either
        inputs.pop()
    node = make_node_spec(
        op_type,
        inputs,
        domain=domain,
        opset=opset,
        outputs=outputs,
        output_mask=output_mask,
        attributes=attributes,
        schemas=schemas,
    )
    definition = find_kernel(definitions, node)
    context = LocalKernelContext(node, xp, {index: inputs[index] for index in constants}, subgraphs)
    result = definition.factory(context)(*inputs)
    results = [result] if definition.outputs == 1 else list(result)[: len(node.outputs)]
    check_ownership(definition, inputs, results)
    return results


def check_ownership(definition: KernelDef, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Assert that outputs are new arrays, as far as `KernelDef.views` does not say otherwise.

    The engine reuses the memory of inputs whose last reader has run: an output that is secretly a view of one is
    overwritten then. Shapes with axes of size 1 find the most: what copies elsewhere gives a view of them.

    Args:
        definition: The kernel.
        inputs: Arguments of the call.
        outputs: Results of the call. Values that are not NumPy arrays are ignored.
    """
    for number, result in enumerate(outputs):
        for position, given in enumerate(inputs):
            if (number, position) in definition.views or not isinstance(result, np.ndarray):
                continue
            assert not (isinstance(given, np.ndarray) and np.may_share_memory(result, given)), (
                f"{definition.title}: output {number} shares memory with input {position}: copy it, or declare `views`"
            )


def reference_outputs(
    op_type: str,
    inputs: Sequence[Any],
    *,
    domain: str = "",
    opset: int | None = None,
    outputs: int = 1,
    **attributes: Any,
) -> list[Any]:
    """Run the same node with `onnx.reference` (inputs are NumPy; absent optional ones None)."""
    import onnx
    from onnx import defs, helper
    from onnx.reference import ReferenceEvaluator

    version = opset if opset is not None else defs.get_schema(op_type, domain).since_version
    names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    attrs: dict[str, Any] = {
        name: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in attributes.items()
    }
    node = helper.make_node(op_type, names, results, None, None, domain, None, **attrs)
    graph_inputs = [
        helper.make_tensor_value_info(name, int(data_type_of(np.asarray(value).dtype)), list(np.shape(value)))
        for name, value in zip(names, inputs, strict=True)
        if name
    ]
    graph_outputs = [helper.make_empty_tensor_value_info(name) for name in results]
    imports = [helper.make_opsetid(domain, version)]
    if domain:
        imports.append(helper.make_opsetid("", defs.onnx_opset_version()))
    model = helper.make_model(helper.make_graph([node], "one_node", graph_inputs, graph_outputs), opset_imports=imports)
    feeds = {name: value for name, value in zip(names, inputs, strict=True) if name}
    return list(ReferenceEvaluator(model).run(None, feeds))
