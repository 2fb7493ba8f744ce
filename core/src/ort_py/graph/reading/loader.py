"""A path, bytes or a protobuf message in; the in-memory model out.

The first station of a model's way, and the thin sequence of the others in this room: read, parse, count, build, sort.
What makes a model unreadable raises here. What is wrong inside its graph is collected in `Model.problems`, for
`validate` to raise together with what it finds itself, so that one message lists everything.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ort_py.collection import paused_collection
from ort_py.errors import Fail, InconsistentGraph, Location
from ort_py.graph.checking.domains import newest_opset
from ort_py.graph.ir import Model
from ort_py.graph.reading.build import ModelBuilder
from ort_py.graph.reading.external_data import ExternalFiles
from ort_py.graph.reading.functions import check_functions, import_problems
from ort_py.graph.reading.order import sort_model
from ort_py.graph.reading.parse_graph import GraphReader
from ort_py.graph.reading.sources import ModelSource, Source, expect_unwritten, read_source
from ort_py.graph.reading.supplied import Supplied
from ort_py.graph.reading.tensors import TensorReader
from ort_py.graph.reading.text import read_opsets, text
from ort_py.graph.reading.written import FunctionKey, WrittenFunction, WrittenGraph
from ort_py.graph.weights.weight_store import WeightStore, process_store
from ort_py.limits import Budget, Limits
from ort_py.onnx_operators import ir_version
from ort_py.onnx_parts import onnx

if TYPE_CHECKING:
    from ort_py.graph.weights.kept_bytes import KeptBytes
    from ort_py.graph.weights.weights import ArrayWeight

_FIRST_IR_WITH_OPSETS = 3
"""Before IR version 3 a model had no opset imports and meant opset 1."""
_FIRST_IR_WITH_TYPES = 2
"""Before IR version 2 an attribute had no type."""


def load_model(
    source: Source,
    *,
    limits: Limits | None = None,
    weights: WeightStore | None = None,
    external_data_folder: str | os.PathLike[str] | None = None,
    supplied: Supplied | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Model:
    """Load a model. Functions are inlined, ``Constant`` nodes are weights, nodes are sorted; nothing is typed yet.

    Args:
        source: Path, bytes of a file, or a message, which is left as it is.
        limits: Bounds for what the model may ask for; the safe defaults where None.
        weights: Keeps the constants; the store of the process where None.
        external_data_folder: Folder of external data; None for that of the model's file.
        supplied: Data and dimensions that replace what the file says.
        cancelled: Asked now and then whether to stop.

    Returns:
        The model. Call `validate` before using it: `Model.problems` may say that the graph is broken.

    Raises:
        NoSuchFile: There is no such file.
        InvalidProtobuf: It is a directory, or its bytes are not an ONNX model, or a name in it is not text.
        InvalidArgument: It is empty or has no graph.
        InvalidGraph: A function calls itself.
        Fail: The IR version or an opset is missing or newer than supported; the file or its external data cannot be
            used.
        LimitError: The model asks for more than `limits` allow.
        ModelLoadCanceled: `cancelled` returned True.
    """
    limits = limits or Limits()
    budget = Budget(limits, cancelled=cancelled)
    budget.check_time()
    store = weights or process_store()
    with paused_collection():
        read = read_source(source, limits, external_data_folder, whole=False, check=budget.check_time)
        return _load(read, store, budget, supplied or Supplied())


def _load(read: ModelSource, store: WeightStore, budget: Budget, supplied: Supplied) -> Model:
    budget.file_bytes = read.size
    model = _header(read)
    model.budget = budget
    written, functions, problems = _parse(model, read, store, budget, supplied)
    model.problems += problems
    model.problems += import_problems(written.nodes, functions, model.opset_imports)
    for function in functions.values():
        _check_opsets(function.opset_imports, Location(file=read.path, path=(function.title,)))
        for domain, opset in function.opset_imports.items():
            model.opset_imports.setdefault(domain, opset)
    check_functions(written.nodes, functions, budget)
    ModelBuilder(model, functions, budget, store).main(written)
    sort_model(model)
    budget.check_time()
    return model


def _parse(
    model: Model, read: ModelSource, store: WeightStore, budget: Budget, supplied: Supplied
) -> tuple[WrittenGraph, dict[FunctionKey, WrittenFunction], list[str]]:
    """Read the graphs, then let go of the message: the graph is built without its memory."""
    files = ExternalFiles(read.folder, store, budget, read.real_folder, supplied)
    tensors = TensorReader(store, budget, files, read.content, os.path.abspath(read.path), read.file)
    reader = GraphReader(tensors, budget, typed=model.ir_version >= _FIRST_IR_WITH_TYPES, source=read.path)
    proto, read.proto = read.proto, None
    supplied.check_used(proto.graph)
    written = reader.graph(proto.graph)
    supplied.fix_dimensions(written, proto.graph)
    functions: dict[FunctionKey, WrittenFunction] = {}
    for message in proto.functions:
        function = reader.function(message)
        if function.key in functions:
            reader.problems.append(f"Function '{function.title}' is defined twice.")
        functions.setdefault(function.key, function)
    if read.content is not None and not read.path:
        model.kept = _kept(read.content, tensors.found)
    read.content = None
    expect_unwritten(read)
    model.external_files = files.opened
    return written, functions, reader.problems


def _kept(content: memoryview, found: dict[int, tuple[int, ArrayWeight]]) -> KeptBytes | None:
    """The bytes of a model, with its large constants in their places; None where it has no large ones."""
    if not found:
        return None
    from ort_py.graph.weights.kept_bytes import KeptBytes  # of models given as bytes

    parts: list[bytes | tuple[ArrayWeight, memoryview]] = []
    position = 0
    for start, (stop, weight) in sorted(found.items()):
        parts += (bytes(content[position:start]), (weight, content[start:stop]))
        position = stop
    return KeptBytes([*parts, bytes(content[position:])])


def _header(read: ModelSource) -> Model:
    proto, where = read.proto, Location(file=read.path)
    if proto.ir_version < 1:
        why = "every ONNX model states the version of its format"
        fix = "The file is damaged or not an ONNX model; export it again."
        raise Fail("The model has no IR version.", where=where, why=why, fix=fix)
    if proto.ir_version > ir_version():
        what = f"The model has IR version {proto.ir_version}; the newest supported one is {ir_version()}."
        why = f"onnx {onnx.__version__} is installed and reads up to that version"
        raise Fail(what, where=where, why=why, fix="Update onnx, or export the model with an older opset.")
    imports = read_opsets(proto.opset_import)
    if not imports:
        if proto.ir_version >= _FIRST_IR_WITH_OPSETS:
            why = "without an opset, the versions of its operators are unknown"
            fix = "Export the model again, or add an opset import to it."
            raise Fail("The model imports no opset.", where=where, why=why, fix=fix)
        imports = {"": 1}
    _check_opsets(imports, where)
    return Model(
        opset_imports=imports,
        ir_version=int(proto.ir_version),
        producer_name=text(proto.producer_name),
        producer_version=text(proto.producer_version),
        domain=text(proto.domain),
        model_version=int(proto.model_version) if proto.HasField("model_version") else None,
        doc_string=text(proto.doc_string),
        graph_doc_string=text(proto.graph.doc_string),
        metadata=_metadata(proto),
        source=read.path,
        fingerprint=read.fingerprint,
    )


def _metadata(proto: Any) -> dict[str, str]:
    return {text(entry.key): text(entry.value) for entry in proto.metadata_props}


def _check_opsets(imports: dict[str, int], where: Location) -> None:
    for domain, opset in imports.items():
        newest = newest_opset(domain)
        title = domain or "ai.onnx"
        if opset < 1 and newest is not None:
            what = f"The model imports opset {opset} of {title}, which does not exist."
            raise InconsistentGraph(what, where=where, why="opsets are numbered from 1", fix="Export the model again.")
        if newest is not None and opset > newest:
            raise Fail(
                f"The model imports opset {opset} of {title}; the newest supported one is {newest}.",
                where=where,
                why=f"onnx {onnx.__version__} is installed and defines operators up to that opset",
                fix=f"Update onnx, or export the model with opset {newest} or older.",
            )
