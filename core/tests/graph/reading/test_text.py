"""Names that are not text."""

from __future__ import annotations

import onnx
import pytest

from ort_py.errors import InvalidProtobuf
from ort_py.graph.reading.loader import load_model

pytestmark = pytest.mark.quick

MODEL = """<ir_version: 9, opset_import: ["": 18, "Domain": 1], producer_name: "Producer", doc_string: "Story">
    Graph (float[Dim] Input, seq(float[Deep]) q) => (float[2] Output) {
        ["Node"] mid = Domain.Fun <attr = 1.0> (Input)
        Output = Neg(mid)
    }
    <domain: "Domain", opset_import: ["": 18]>
    Fun <attr> (Formal) => (Result) { Result = Elu <alpha: float = @attr> (Formal) }
"""


def content() -> bytes:
    """A model with a name in every kind of place."""
    proto = onnx.parser.parse_model(MODEL)
    onnx.helper.set_model_props(proto, {"Key": "Thing"})
    return proto.SerializeToString()


def test_the_model_is_fine_as_it_is() -> None:
    assert load_model(content()).producer_name == "Producer"


NAMES = ["Producer", "Story", "Graph", "Dim", "Deep", "Input", "Output", "Node", "Neg", "mid", "Domain", "Fun", "attr"]
NAMES += ["Formal", "Result", "Elu", "alpha", "Key", "Thing"]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_no_utf8_are_refused(name: str) -> None:
    """Protobuf returns bytes for them; the message shows the bytes."""
    broken = content().replace(name.encode(), b"\xff" + name[1:].encode())
    with pytest.raises(InvalidProtobuf, match=r"not UTF-8 text(.|\n)*\\xff"):
        load_model(broken)
