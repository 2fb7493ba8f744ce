"""Questions to the library's ONNX parser: which nodes of a model it takes, and a model as a network.

Comes after `region_model`; before `capability`, which asks about regions, and `building`, which builds networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ort_py.errors import EPFail
from ort_py.lazy_dataclass import dataclass
from ort_py_tensorrt.region_model import RegionModel
from ort_py_tensorrt.toolkit import Toolkit

__all__ = ["Network", "Verdict", "ask", "parse"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The parser's answer about a model.

    Attributes:
        refused: Reason by number of a node in the model.
        whole: Why the model is refused as a whole; empty if it is not.
        sizes_from: Inputs whose values decide shapes. The parser takes them, and the engine would need them on the
            host.
    """

    refused: dict[int, str]
    whole: str = ""
    sizes_from: tuple[str, ...] = ()

    def to_json(self) -> list[Any]:
        """Return plain data."""
        return [[[node, reason] for node, reason in self.refused.items()], self.whole, list(self.sizes_from)]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Verdict:
        """Read what `to_json` returned."""
        refused, whole, sizes_from = data
        return cls({int(node): str(reason) for node, reason in refused}, str(whole), tuple(map(str, sizes_from)))


@dataclass(frozen=True, slots=True)
class Network:
    """A network and the parser that fills it, with what has to live as long."""

    builder: Any
    network: Any
    parser: Any
    model: RegionModel


def ask(toolkit: Toolkit, model: RegionModel) -> Verdict:
    """Ask the parser about a model, in its own words."""
    with toolkit.compiling():
        return _answer(toolkit, model)


def parse(toolkit: Toolkit, model: RegionModel) -> Network:
    """Return a model as a network.

    Raises:
        EPFail: The parser does not take it.
    """
    with toolkit.compiling() as errors:
        made = _network(toolkit, model)
        _load(made.parser, model)
        if not made.parser.parse_model_proto():
            found = _refusals(toolkit, made.parser, model)
            reasons = [*([found.whole] if found.whole else []), *found.refused.values()]
            raise EPFail(
                f"{toolkit.variant.title}'s parser does not take a region: {'; '.join(reasons or errors)}",
                fix="Leave the region to the next provider.",
            )
        return made


def _answer(toolkit: Toolkit, model: RegionModel) -> Verdict:
    made = _network(toolkit, model)
    if model.weights:
        # The same check as `supports_model_v2`, which takes no weights by address.
        _load(made.parser, model)
        taken = bool(made.parser.parse_model_proto())
    else:
        taken = bool(made.parser.supports_model_v2(model.proto.SerializeToString()))
        if taken:  # only a network says which inputs decide shapes
            made = _network(toolkit, model)
            taken = bool(made.parser.parse(model.proto.SerializeToString()))
    if taken:
        inputs = [made.network.get_input(number) for number in range(made.network.num_inputs)]
        return Verdict({}, sizes_from=tuple(one.name for one in inputs if one.is_shape_tensor))
    return _refusals(toolkit, made.parser, model)


def _network(toolkit: Toolkit, model: RegionModel) -> Network:
    library = toolkit.module
    builder = library.Builder(toolkit.logger)
    network = builder.create_network(1 << int(library.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    return Network(builder, network, library.OnnxParser(network, toolkit.logger), model)


def _load(parser: Any, model: RegionModel) -> None:
    """Hand over a model, and the addresses of its weights."""
    # Neither says why it fails; the parser does, when it is asked to parse.
    parser.load_model_proto(model.proto.SerializeToString())
    for name, array in model.weights.items():
        parser.load_initializer(name, array.ctypes.data, array.nbytes)


def _refusals(toolkit: Toolkit, parser: Any, model: RegionModel) -> Verdict:
    taken = {
        node
        for number in range(parser.num_subgraphs)
        for node in parser.get_subgraph_nodes(number)
        if parser.num_errors or parser.is_subgraph_supported(number)
    }
    refused: dict[int, str] = {}
    whole: list[str] = []
    for number in range(parser.num_errors):
        error = parser.get_error(number)
        node = error.node()
        words = " ".join(str(error.desc()).split())
        if 0 <= node < len(model.proto.graph.node) and node not in refused:
            name, operator = error.node_name(), error.node_operator()
            refused[node] = f"{toolkit.variant.title}'s parser refuses {operator} '{name}': {_said(words, error)}"
        elif node < 0:
            whole.append(words)
    if whole and not refused:
        return Verdict({}, whole=f"{toolkit.variant.title}'s parser refuses the model: {'; '.join(whole)}")
    # The parser checks nodes behind one that it refuses less far, and gives no reason for those that it left out then.
    for node, one in enumerate(model.proto.graph.node):
        if node not in taken and node not in refused:
            refused[node] = f"{toolkit.variant.title}'s parser does not take {one.op_type} '{one.name}'"
    if not refused:
        return Verdict({}, whole=f"{toolkit.variant.title}'s parser refuses the model, and gives no reason")
    return Verdict(refused)


def _said(words: str, error: Any) -> str:
    """Return the parser's description. That of an operator without a converter is the word "false"."""
    code = str(error.code()).rpartition(".")[2]
    return f"{code}: the operator is not supported" if words in {"", "false"} else f"{code}: {words}"
