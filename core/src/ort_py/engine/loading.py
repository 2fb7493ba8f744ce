"""Reading a model: loaded, checked, typed, its gradients written out.

Comes before `assembly`. Imported only where a model is really read: this is what needs the onnx package, which a
session that is restored from the cache does not.
"""

from __future__ import annotations

from ort_py.engine.load_report import LoadReport
from ort_py.engine.replaced_values import external_folder, replace_initializers, supplied_by
from ort_py.errors import InvalidArgument
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.validate import check_types, validate
from ort_py.graph.ir import Model, walk
from ort_py.graph.reading.given_model import GivenModel
from ort_py.graph.reading.loader import load_model
from ort_py.graph.typing.shapes import infer_types
from ort_py.hooks.manager import HookManager
from ort_py.logs import lazy_logger
from ort_py.options import SessionOptions, additions_of
from ort_py.planning.slices import note_slice_types

_logger = lazy_logger("ort_py.session")


def schema_registry(hooks: HookManager) -> SchemaRegistry:
    """The operators' schemas: those of ONNX and, once they are asked for, of plug-ins."""

    def add(schemas: SchemaRegistry) -> None:
        for plugin, schema in hooks.contributions("ort_py_operator_schemas"):
            try:
                schemas.add([schema])
            except InvalidArgument as error:
                _logger.warning("plug-in '%s' contributes a schema that is not used: %s", plugin, error)

    return SchemaRegistry(ask=add)


def load(source: GivenModel, options: SessionOptions, schemas: SchemaRegistry, report: LoadReport) -> Model:
    """Read, validate and type a model.

    Raises:
        OrtPyError: Anything wrong with the model, all problems of a stage in one message.
    """
    with report.stage("load") as notes:
        flag = additions_of(options).load_flag
        model = load_model(
            source.content,
            limits=options.limits,
            external_data_folder=external_folder(options, source),
            supplied=supplied_by(additions_of(options)),
            cancelled=lambda: flag.cancelled,
        )
        replace_initializers(model, additions_of(options).initializers)
        notes.append(f"{sum(len(graph.nodes) for graph in walk(model.graph))} nodes")
    with report.stage("validate"):
        validate(model, schemas)
    for graph in walk(model.graph):
        graph.declared_outputs = [value.type for value in graph.outputs]
    with report.stage("infer types"):
        infer_types(model, schemas)
        for graph in walk(model.graph):
            if graph.owner is not None:
                note_slice_types(graph)
        check_types(model, schemas)
    if any(node.op_type == "Gradient" for graph in walk(model.graph) for node in graph.nodes):
        _differentiate(model, options, schemas, report)
    return model


def _differentiate(model: Model, options: SessionOptions, schemas: SchemaRegistry, report: LoadReport) -> None:
    """Replace Gradient nodes, before anything renames or removes the tensors they name."""
    from ort_py.transforms.gradient.lowering import lower_gradients  # few models need it, and it is large

    with report.stage("gradients") as notes:
        count = lower_gradients(model, schemas, options.limits)
        notes.append(f"{count} Gradient nodes")
