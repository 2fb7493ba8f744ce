"""Protobuf's wire format, by itself: numbers, lists, pieces, and bytes that are none of this."""

from __future__ import annotations

import mmap
import time
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError

from ort_py.graph.reading.onnx_messages import (
    AttributeProto,
    Dimension,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
)
from ort_py.graph.reading.wire import DEEPEST, PIECE, Malformed, Piece, TooDeep, read

pytestmark = pytest.mark.quick


def varint(value: int) -> bytes:
    """A number as the format has it."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def field(number: int, content: bytes) -> bytes:
    """A field with a length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def nested(levels: int) -> bytes:
    """A graph inside an attribute, inside a node, inside a graph, and so on."""
    content = field(2, b"innermost")
    for level in range(levels):
        content = field((6, 5, 1)[level % 3], content)
    return content


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000, 5000])
def test_integers_with_a_tag_each_are_a_list(count: int) -> None:
    values = np.random.default_rng(count).integers(-(2**63), 2**63 - 1, count)
    values[::3] %= 200
    content = onnx.AttributeProto(name="a", ints=values.tolist(), type=onnx.AttributeProto.INTS).SerializeToString()
    found = read(AttributeProto, memoryview(content))
    assert found.ints == values.tolist()
    assert (found.name, found.type) == ("a", 7)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000, 5000])
def test_floats_with_a_tag_each_are_a_list(count: int) -> None:
    values = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    content = onnx.AttributeProto(name="a", floats=values.tolist(), ref_attr_name="r").SerializeToString()
    found = read(AttributeProto, memoryview(content))
    assert found.floats == values.tolist()
    assert found.ref_attr_name == "r"


def test_numbers_in_one_piece_are_an_array() -> None:
    values = np.random.default_rng(1).integers(-(2**31), 2**31 - 1, 3000)
    content = onnx.TensorProto(int32_data=values.tolist(), dims=[3000]).SerializeToString()
    found = read(TensorProto, memoryview(content))
    assert isinstance(found.int32_data, np.ndarray)
    np.testing.assert_array_equal(found.int32_data, values.astype(np.int32))
    assert found.dims == [3000]


def test_numbers_may_come_in_parts_of_both_forms() -> None:
    """A list may be packed, or have tags, or both by turns: readers must take all."""
    parts = field(7, varint(5) + varint(300)) + varint(7 << 3) + varint(6) + field(7, varint(2**64 - 1))
    assert read(TensorProto, memoryview(parts)).int64_data == [5, 300, 6, -1]
    assert list(onnx.TensorProto.FromString(parts).int64_data) == [5, 300, 6, -1]


def test_reading_numbers_in_many_parts_takes_time_in_proportion() -> None:
    """Twenty times as many parts take about twenty times as long; joining arrays would take 400 times."""

    def seconds(count: int) -> float:
        content = memoryview((field(7, b"\x01") + varint(7 << 3) + b"\x02") * count)
        begun = time.process_time()
        assert len(read(TensorProto, content).int64_data) == 2 * count
        return time.process_time() - begun

    few = min(seconds(2000) for _ in range(3))
    assert seconds(40_000) < 100 * few


def test_a_number_in_a_part_of_its_own_is_read_as_soon_as_a_text() -> None:
    """A small file could else keep a session busy for minutes: arrays take forty times as long to make."""

    def seconds(content: bytes, message: type[TensorProto] | type[NodeProto]) -> float:
        begun = time.process_time()
        read(message, memoryview(content * 20_000))
        return time.process_time() - begun

    text = min(seconds(field(1, b"a"), NodeProto) for _ in range(3))
    assert min(seconds(field(7, b"\x01"), TensorProto) for _ in range(3)) < 8 * text


def test_many_numbers_take_little_memory_beside_them() -> None:
    """One byte a number is the worst that a file can do: a small one would else take all memory."""
    content = memoryview(field(7, b"\x01" * 2_000_000))
    tracemalloc.start()
    try:
        found = read(TensorProto, content).int64_data
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * found.nbytes


@pytest.mark.parametrize("shift", range(10))
def test_numbers_may_lie_across_blocks(shift: int) -> None:
    numbers = [0] * shift + [-1, 5, 1 << 62, 300] * 30_000
    content = onnx.TensorProto(int64_data=numbers).SerializeToString()
    assert read(TensorProto, memoryview(content)).int64_data.tolist() == numbers


@pytest.mark.parametrize("end", [b"\x80" * 300_000 + b"\x00", b"\x00" * 300_000 + b"\x80"])
def test_long_runs_of_bytes_that_are_no_numbers_are_refused(end: bytes) -> None:
    with pytest.raises(Malformed, match="a number"):
        read(TensorProto, memoryview(field(7, end)))


def test_the_last_of_alternatives_counts() -> None:
    content = varint(1 << 3) + varint(4) + field(2, b"N")
    found = read(Dimension, memoryview(content))
    assert (found.dim_param, found.WhichOneof("value"), found.HasField("dim_value")) == ("N", "dim_param", False)


def test_text_that_is_none_stays_bytes() -> None:
    assert read(NodeProto, memoryview(field(1, b"\xff\xfe") + field(1, b"x"))).input == [b"\xff\xfe", "x"]


def test_a_constant_that_the_enumeration_lacks_is_no_value() -> None:
    found = read(AttributeProto, memoryview(varint(20 << 3) + varint(77)))
    assert (found.type, found.HasField("type")) == (0, False)


def test_large_bytes_are_pieces_and_small_ones_are_copied() -> None:
    small, large = bytes(PIECE - 1), bytes(range(256)) * (PIECE // 256)
    content = memoryview(field(9, small))
    assert read(TensorProto, content).raw_data == small
    content = memoryview(field(8, b"w") + field(9, large))
    found = read(TensorProto, content).raw_data
    assert isinstance(found, Piece)
    assert bytes(found.content) == large == bytes(content[found.start : found.stop])
    assert len(found) == PIECE


@pytest.mark.parametrize("form", ["bytes", "bytearray", "part", "mapping"])
def test_bytes_may_be_held_by_anything(form: str, tmp_path: Path) -> None:
    content = field(2, b"g") + field(1, field(1, b"x") + field(4, b"Relu")) + field(5, field(9, bytes(PIECE)))
    if form == "mapping":
        (tmp_path / "content").write_bytes(content)
        with (tmp_path / "content").open("rb") as file:
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    else:
        view = {"bytes": memoryview(content), "bytearray": memoryview(bytearray(content))}.get(
            form, memoryview(b"head" + content + b"tail")[4:-4]
        )
    found = read(GraphProto, view)
    assert (found.name, found.node[0].op_type, found.node[0].input) == ("g", "Relu", ["x"])
    assert bytes(found.initializer[0].raw_data.content) == bytes(PIECE)


def test_messages_may_be_as_deep_as_protobuf_has_them() -> None:
    content = nested(DEEPEST)
    assert read(AttributeProto, memoryview(content)).g.node
    assert onnx.AttributeProto.FromString(content).g.node


def test_deeper_messages_are_refused() -> None:
    content = nested(DEEPEST + 1)
    with pytest.raises(TooDeep, match="100 levels"):
        read(NodeProto, memoryview(content))
    with pytest.raises(DecodeError):
        onnx.NodeProto.FromString(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x0a", "beyond the end"),
        (field(7, b"")[:-1], "beyond the end"),
        (b"\x3a\x05\x0a\x09abc", "beyond the end"),
        (b"\x08" + b"\xff" * 11, "more than 64 bits"),
        (b"\x00\x00", "the number 0"),
        (b"\x0c", "a group ends"),
        (b"\x0e", "the wire type 6"),
        (b"\x5b\x08", "beyond the end"),
    ],
    ids=["length", "cut", "inner", "varint", "number", "group end", "wire type", "group"],
)
def test_bytes_that_are_no_message_are_refused(content: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        read(ModelProto, memoryview(content))
    with pytest.raises(DecodeError):
        onnx.ModelProto.FromString(content)


@pytest.mark.parametrize("chunk", [b"\x00\x00\x80", b"\x00\x00\x80\x3f\x00"])
def test_packed_floats_have_whole_numbers(chunk: bytes) -> None:
    with pytest.raises(Malformed, match="no sequence of numbers"):
        read(TensorProto, memoryview(field(4, chunk)))


def test_packed_integers_do_not_break_off() -> None:
    with pytest.raises(Malformed, match="breaks off"):
        read(TensorProto, memoryview(field(7, b"\x05\x80")))


def test_groups_that_nobody_reads_are_skipped() -> None:
    group = varint(60 << 3 | 3) + varint(1 << 3) + b"\x05" + field(2, b"inside") + varint(60 << 3 | 4)
    assert read(NodeProto, memoryview(group + field(4, b"Relu"))).op_type == "Relu"


def test_the_caller_may_end_the_reading() -> None:
    """Time limits and cancelling hold while a large file of small fields is read."""

    def stop() -> None:
        raise TimeoutError("enough")

    content = memoryview(field(1, b"x") * 200_000)
    assert len(read(NodeProto, content).input) == 200_000
    with pytest.raises(TimeoutError):
        read(NodeProto, content, stop)
