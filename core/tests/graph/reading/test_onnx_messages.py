"""ONNX's messages, read without protobuf: as protobuf reads them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import pytest
from google.protobuf.message import DecodeError

from core.tests.graph.reading.messages import expect_equal, is_repeated, random_model
from ort_py.graph.reading import onnx_messages
from ort_py.graph.reading.onnx_messages import ModelProto
from ort_py.graph.reading.wire import ARRAY, BYTES_LIST, MESSAGES, NUMBERS, TEXTS, Malformed, Message, read

_KINDS = [kind for kind in vars(onnx_messages).values() if isinstance(kind, type) and issubclass(kind, Message)]
_NESTED: Mapping[str, Any] = {
    "Dimension": onnx.TensorShapeProto.Dimension,
    "Tensor": onnx.TypeProto.Tensor,
    "Sequence": onnx.TypeProto.Sequence,
    "Map": onnx.TypeProto.Map,
}


@pytest.mark.parametrize("kind", [kind for kind in _KINDS if kind is not Message], ids=lambda kind: kind.__name__)
def test_fields_have_the_numbers_and_types_of_onnx(kind: type[Message]) -> None:
    """A field under another number, or a list that is not one, would be read as something else."""
    theirs = _NESTED.get(kind.__name__) or getattr(onnx, kind.__name__)
    fields = theirs.DESCRIPTOR.fields_by_number
    found = [(tag >> 3, entry) for tag, entry in enumerate(kind.entries) if entry is not None]
    assert found
    for number, (how, name, of, _) in found:
        assert fields[number].name == name
        assert is_repeated(fields[number]) == (how in (TEXTS, BYTES_LIST, MESSAGES, NUMBERS, ARRAY))
        if isinstance(of, type) and issubclass(of, Message):
            expected = fields[number].message_type.name
            assert of.__name__ == {"SparseTensor": "Tensor", "Optional": "Sequence"}.get(expected, expected)
        elif isinstance(of, int):
            assert sorted(fields[number].enum_type.values_by_number) == list(range(of))


@pytest.mark.parametrize("seed", range(12))
def test_random_messages_are_read_as_protobuf_reads_them(seed: int) -> None:
    """All fields in every combination, also those that are skipped; lists long enough to be read many at a time."""
    content = random_model(random.Random(seed)).SerializeToString()
    expect_equal(read(ModelProto, memoryview(content)), onnx.ModelProto.FromString(content))


@pytest.mark.parametrize("seed", range(4))
def test_a_second_message_adds_to_the_first(seed: int) -> None:
    """Protobuf joins messages whose bytes follow each other: lists grow, single values are replaced."""
    rng = random.Random(1000 + seed)
    content = b"".join(random_model(rng).SerializeToString() for _ in range(2))
    expect_equal(read(ModelProto, memoryview(content)), onnx.ModelProto.FromString(content))


@pytest.mark.parametrize("seed", range(12))
def test_damaged_messages_are_read_as_protobuf_reads_them(seed: int) -> None:
    """What protobuf reads is read alike; what it refuses is refused, unless the fault is in what is skipped."""
    rng = random.Random(2000 + seed)
    content = random_model(rng).SerializeToString()
    for _ in range(20):
        damaged = bytearray(content)
        place = rng.randrange(min(len(damaged), rng.choice([20, 200, 1 << 30])))
        damaged[place : place + rng.choice([0, 1, 1, 4])] = rng.randbytes(rng.choice([0, 1, 1, 3]))
        try:
            theirs = onnx.ModelProto.FromString(bytes(damaged))
        except DecodeError:
            continue
        expect_equal(read(ModelProto, memoryview(damaged)), theirs)


@pytest.mark.parametrize("size", [1, 3, 9])
def test_a_message_that_breaks_off_is_refused(size: int) -> None:
    content = onnx.helper.make_model(
        onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [], []), producer_name="someone"
    ).SerializeToString()
    with pytest.raises(DecodeError):
        onnx.ModelProto.FromString(content[:-size])
    with pytest.raises(Malformed):
        read(ModelProto, memoryview(content)[:-size])


def test_models_of_the_backend_suite_are_read_as_protobuf_reads_them() -> None:
    """Models that another hand wrote, many by PyTorch."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    paths = sorted(folder.rglob("model.onnx"))
    assert len(paths) > 100
    for path in paths:
        content = path.read_bytes()
        expect_equal(read(ModelProto, memoryview(content)), onnx.ModelProto.FromString(content), path.parent.name)
