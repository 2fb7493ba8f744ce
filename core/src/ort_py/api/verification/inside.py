"""The first wrong node among several that a region computed together.

The region's nodes are made a model whose outputs are all they compute, and that model is compared as any other. Where
it computes everything right – a region may be wrong only as long as nobody looks inside – nothing is found. Used by
`search`. Knows no thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import onnx

from ort_py.api.comparison.compare import compare
from ort_py.api.comparison.configuration import SessionConfiguration
from ort_py.api.comparison.report import Difference
from ort_py.api.comparison.stepping import SteppedRun
from ort_py.api.verification.reference import reference_configuration
from ort_py.errors import OrtPyError
from ort_py.graph.view import SubsetView
from ort_py.graph.writing.protos import value_info

if TYPE_CHECKING:
    from ort_py.api.session import InferenceSession

__all__ = ["first_inside"]

_logger = logging.getLogger("ort_py.verification")


def first_inside(
    reference: InferenceSession,
    session: InferenceSession,
    feed: Mapping[str, Any],
    difference: Difference,
    look: Callable[..., None],
) -> Difference | None:
    """The first node that computes something wrong, among those that computed a value together; None if none does.

    Args:
        reference: Computes what is expected.
        session: The session that is verified.
        feed: What was fed.
        difference: The value.
        look: Called between steps; what it raises ends the search.
    """
    model = reference._built.model
    names = {node.name for node in difference.reference_nodes}
    nodes = [] if model is None else [node for node in model.graph.nodes if node.name in names]
    if model is None or len(nodes) < 2:
        return None
    view = SubsetView(model.graph, nodes)
    wanted = {value.name for value in view.border[0]}
    try:
        known = _values(reference, feed, wanted, look)
        proto = onnx.load_model_from_string(view.to_model())
        shown = {output.name for output in proto.graph.output}
        for node in nodes:
            for value in node.outputs:
                if value is not None and value.name not in shown and value.type is not None:
                    value_info(proto.graph.output.add(), value.name, value.type)
        report = compare(
            proto.SerializeToString(),
            a=reference_configuration(session._options),
            b=SessionConfiguration(session._options, session._recipe.providers, session._recipe.provider_options),
            inputs=known,
            progress=look,
        )
    except OrtPyError as error:
        _logger.debug("looking inside a region failed: %s: %s", type(error).__name__, error)
        return None
    return report.first


def _values(
    reference: InferenceSession, feed: Mapping[str, Any], wanted: set[str], look: Callable[..., None]
) -> dict[str, Any]:
    """Values of the model by name: inputs, and what its nodes compute."""
    known = {name: value for name, value in feed.items() if name in wanted}
    with SteppedRun(reference, feed) as run:
        while len(known) < len(wanted) and not run.done:
            executed = run.step()
            known |= {
                value.name: run.read(slot, executed.step)
                for slot, value in run.outputs(executed)
                if value.name in wanted
            }
            look()
    return known
