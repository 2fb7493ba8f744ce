"""Making a found case small: fewer runs, outputs and nodes, plainer attributes and numbers, while it still fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.fuzzing.cases import Case, Feeds
from tests.fuzzing.pruning import pruned, read_by
from tests.fuzzing.runners import Variant, guarded, options_of

__all__ = ["shrink"]

Test = Callable[[Case], bool]


def shrink(case: Case, fails: Test, seconds: float = 20.0) -> Case:
    """The smallest case that still fails, as far as it is found in the time given.

    Args:
        case: A case that fails.
        fails: Whether a case fails in the same way.
        seconds: How long to try.
    """
    end = time.monotonic() + seconds
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for attempt in (_fewer_feeds, _fewer_outputs, _earlier_outputs, _later_start, _bypassed, _plainer):
            for candidate in attempt(case):
                if time.monotonic() > end:
                    return case
                if _size(candidate) < _size(case) and _holds(fails, candidate):
                    case, progress = candidate, True
                    break
    return case


def _holds(fails: Test, candidate: Case) -> bool:
    try:
        return fails(candidate)
    except Exception:
        return False


def _size(case: Case) -> tuple[int, ...]:
    graph = case.model.graph
    odd = sum(
        int(np.count_nonzero(array != np.round(array))) if array.dtype.kind == "f" else 0
        for feeds in case.feeds
        for array in feeds.values()
    )
    attributes = sum(len(node.attribute) for node in graph.node)
    return (
        len(graph.node),
        len(graph.output),
        len(case.feeds),
        attributes,
        len(graph.input),
        odd,
        case.model.ByteSize(),
    )


def _with(case: Case, model: onnx.ModelProto, feeds: list[Feeds] | None = None) -> Case:
    names = {one.name for one in model.graph.input}
    kept = [{name: array for name, array in some.items() if name in names} for some in (feeds or case.feeds)]
    return Case(model, kept, case.about)


def _fewer_feeds(case: Case) -> Iterator[Case]:
    if len(case.feeds) > 1:
        for feeds in case.feeds:
            yield Case(case.model, [feeds], case.about)


def _fewer_outputs(case: Case) -> Iterator[Case]:
    outputs = list(case.model.graph.output)
    if len(outputs) > 1:
        for one in outputs:
            yield _with(case, _returning(case.model, [one]))
        for one in outputs:
            yield _with(case, _returning(case.model, [other for other in outputs if other is not one]))


def _returning(model: onnx.ModelProto, outputs: list[Any]) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.output[:]
    made.graph.output.extend(outputs)
    return pruned(made)


def _earlier_outputs(case: Case) -> Iterator[Case]:
    nodes = [node for node in case.model.graph.node if node.op_type != "Constant"]
    for node in nodes[:-1]:
        infos = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        yield _with(case, _returning(case.model, infos))


def _values(case: Case) -> list[dict[str, Any]]:
    """NumPy's result for each value, as far as it gets."""
    nodes = list(case.model.graph.node)
    for count in (len(nodes), len(nodes) - 1, len(nodes) // 2, len(nodes) // 4):
        if count < 1:
            continue
        names = [name for node in nodes[:count] for name in node.output if name]
        shown = _returning(case.model, [helper.make_empty_tensor_value_info(name) for name in names])
        found = [guarded(partial(_run, shown, feeds)) for feeds in case.feeds]
        if all(one.outputs is not None for one in found):
            return [dict(zip(names, one.outputs or (), strict=True)) for one in found]
    return []


def _run(model: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    import ort_py

    variant = Variant("numpy", "ORT_DISABLE_ALL", plain=True)
    names = {one.name for one in model.graph.input}
    with ort_py.InferenceSession(
        model.SerializeToString(), options_of(variant), providers=["CPUExecutionProvider"]
    ) as session:
        return list(session.run(None, {name: array for name, array in feeds.items() if name in names}))


def _later_start(case: Case) -> Iterator[Case]:
    values = _values(case)
    if not values:
        return
    nodes = list(case.model.graph.node)
    cuts = [set(range(count)) for count in (len(nodes) * 3 // 4, len(nodes) // 2, len(nodes) // 4) if count]
    cuts += [{place} for place in range(len(nodes))]
    for cut in cuts:
        made = _without(case, cut, values)
        if made is not None:
            yield made


def _without(case: Case, cut: set[int], values: list[dict[str, Any]]) -> Case | None:
    """The case with some nodes' outputs fed instead of computed."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    nodes = list(case.model.graph.node)
    returned = {one.name for one in case.model.graph.output}
    rest = [node for place, node in enumerate(nodes) if place not in cut]
    read = set().union(*[read_by(node) for node in rest]) if rest else set()
    fed = [name for place in sorted(cut) for name in nodes[place].output if name in read]
    if any(name in returned for place in cut for name in nodes[place].output) or not rest:
        return None
    del model.graph.node[:]
    model.graph.node.extend(rest)
    feeds = [dict(some) for some in case.feeds]
    for name in fed:
        arrays = [array for some in values if isinstance(array := some.get(name), np.ndarray)]
        if len(arrays) < len(values):
            return None
        kind = helper.np_dtype_to_tensor_dtype(arrays[0].dtype)
        constant = any(
            node.op_type == "Constant" for place, node in enumerate(nodes) if place in cut and name in node.output
        )
        if constant:
            model.graph.initializer.append(numpy_helper.from_array(arrays[0], name))
            continue
        shapes = [array.shape for array in arrays]
        shape = shapes[0] if len(set(shapes)) == 1 else [None] * len(shapes[0])
        model.graph.input.append(helper.make_tensor_value_info(name, kind, shape))
        for some, array in zip(feeds, arrays, strict=True):
            some[name] = array
    return _with(case, pruned(model), feeds)


def _bypassed(case: Case) -> Iterator[Case]:
    """The case with a node replaced by one of its inputs."""
    returned = {one.name for one in case.model.graph.output}
    for place, node in enumerate(case.model.graph.node):
        for source in node.input[:3]:
            if not source or not node.output or node.output[0] in returned:
                continue
            model = onnx.ModelProto()
            model.CopyFrom(case.model)
            del model.graph.node[place]
            for other in model.graph.node:
                for index, name in enumerate(other.input):
                    if name == node.output[0]:
                        other.input[index] = source
            yield _with(case, pruned(model))


def _plainer(case: Case) -> Iterator[Case]:
    """The case without an attribute, and with plainer numbers."""
    for place, node in enumerate(case.model.graph.node):
        for index, attribute in enumerate(node.attribute):
            if attribute.name not in {"value", "to", "axis", "body", "then_branch", "else_branch", "hidden_size"}:
                model = onnx.ModelProto()
                model.CopyFrom(case.model)
                del model.graph.node[place].attribute[index]
                yield _with(case, model)
    for name in list(case.feeds[0]):
        for change in (np.zeros_like, np.ones_like, _rounded):
            feeds = [{**some, name: np.asarray(change(some[name]))} for some in case.feeds]
            if any(one[name].tobytes() != other[name].tobytes() for one, other in zip(feeds, case.feeds, strict=True)):
                yield Case(case.model, feeds, case.about)


def _rounded(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.round(array) if array.dtype.kind == "f" else array
