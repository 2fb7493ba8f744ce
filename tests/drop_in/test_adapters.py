"""LoRA adapters: files that both runtimes read, parameters that replace initializers, and hostile files."""

from __future__ import annotations

import itertools
import random
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ort_py
from ort_py.compat.adapter_file import read_adapter_bytes
from ort_py.errors import UsageError
from tests.drop_in.both_runtimes import OURS, THEIRS, expect_agreement, expect_difference, session

LINEAR = "g (float[N, 2] x, float[2, 3] w) => (float[N, 3] y) <float[2, 3] w = {1,1,1,1,1,1}> { y = MatMul (x, w) }"
CONSTANT = "g (float[N, 2] x) => (float[N, 3] y) <float[2, 3] w = {1,1,1,1,1,1}> { y = MatMul (x, w) }"
ONE = np.ones((1, 2), np.float32)
FIVES = np.full((2, 3), 5, np.float32)


def written(runtime: Any, path: Path, **parameters: Any) -> Path:
    """An adapter's file."""
    adapter = runtime.AdapterFormat()
    adapter.set_adapter_version(3)
    adapter.set_model_version(-7)
    adapter.set_parameters({name: runtime.OrtValue.ortvalue_from_numpy(array) for name, array in parameters.items()})
    adapter.export_adapter(str(path))
    return path


_kept: list[Any] = []  # onnxruntime's run options do not keep their adapters alive, and a run then crashes; ours do


def loaded(runtime: Any, path: Path) -> Any:
    """The file as an adapter to run with."""
    adapter = runtime.LoraAdapter()
    adapter.Load(str(path))
    _kept.append(adapter)
    return adapter


@pytest.mark.parametrize(("writer", "reader"), list(itertools.product((OURS, THEIRS), repeat=2)))
def test_files_are_read_by_both(writer: Any, reader: Any, tmp_path: Path) -> None:
    """Versions, names, shapes, element types and values survive."""
    rng = np.random.default_rng(0)
    parameters: dict[str, np.ndarray[Any, Any]] = {
        "w": rng.random((2, 3), np.float32),
        "größe": np.arange(-2, 3, dtype=np.int64),
        "half": np.array([[1.5]], np.float16),
        "empty": np.zeros((0, 4), np.float64),
        "bytes": np.arange(5, dtype=np.uint8),
    }
    found = reader.AdapterFormat.read_adapter(str(written(writer, tmp_path / "a.adapter", **parameters)))
    assert (found.get_format_version(), found.get_adapter_version(), found.get_model_version()) == (1, 3, -7)
    values = {name: value.numpy() for name, value in found.get_parameters().items()}
    assert values.keys() == parameters.keys()
    for name, array in parameters.items():
        assert values[name].dtype == array.dtype
        np.testing.assert_array_equal(values[name], array)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "int4", "uint4"])
def test_types_numpy_lacks(name: str, tmp_path: Path) -> None:
    """They are written and read too, packed where ONNX packs them."""
    array = np.array([1, 0, 3], getattr(ml_dtypes, name))
    value = ort_py.AdapterFormat.read_adapter(written(ort_py, tmp_path / "a.adapter", w=array)).get_parameters()["w"]
    assert value.numpy().dtype == array.dtype
    np.testing.assert_array_equal(value.numpy().astype(np.float32), array.astype(np.float32))


@pytest.mark.parametrize(
    ("text", "names", "feed"),
    [
        (LINEAR, ("w",), {"x": ONE}),
        (LINEAR, ("w",), {"x": ONE, "w": FIVES * 2}),
        (LINEAR, (), {"x": ONE}),
        (LINEAR, ("other",), {"x": ONE}),
        (CONSTANT, ("w",), {"x": ONE}),
    ],
    ids=["replaced", "wins over the feed", "without parameters", "unknown name", "no overridable initializer"],
)
def test_runs_with_an_adapter(text: str, names: tuple[str, ...], feed: dict[str, Any], tmp_path: Path) -> None:
    """Parameters replace initializers that may be fed, and nothing else; the next run has the model's own again."""

    def case(runtime: Any) -> Any:
        options = runtime.RunOptions()
        path = written(runtime, tmp_path / "a.adapter", **dict.fromkeys(names, FIVES))
        options.add_active_adapter(loaded(runtime, path))
        found = session(runtime, text)
        return found.run(None, feed, options), found.run(None, {"x": ONE})

    expect_agreement(case)


@pytest.mark.parametrize("bad", [FIVES.astype(np.float64), np.ones((2, 4), np.float32)], ids=["type", "shape"])
def test_parameters_that_do_not_fit(bad: np.ndarray[Any, Any], tmp_path: Path) -> None:
    """A parameter of another type or shape is refused like a feed."""

    def case(runtime: Any) -> Any:
        options = runtime.RunOptions()
        options.add_active_adapter(loaded(runtime, written(runtime, tmp_path / "a.adapter", w=bad)))
        return session(runtime, LINEAR).run(None, {"x": ONE}, options)

    expect_agreement(case)


def test_the_first_adapter_wins(tmp_path: Path) -> None:
    def case(runtime: Any) -> Any:
        options = runtime.RunOptions()
        for factor in (1, 3):
            path = written(runtime, tmp_path / f"{factor}.adapter", w=FIVES * np.float32(factor))
            options.add_active_adapter(loaded(runtime, path))
        return session(runtime, LINEAR).run(None, {"x": ONE}, options)

    expect_agreement(case)


def test_options_keep_their_adapters_alive(tmp_path: Path) -> None:
    options = ort_py.RunOptions()
    adapter = ort_py.LoraAdapter()
    adapter.Load(written(ort_py, tmp_path / "a.adapter", w=FIVES))
    options.add_active_adapter(adapter)
    del adapter
    assert session(ort_py, LINEAR).run(None, {"x": ONE}, options)[0].tolist() == [[10.0] * 3]


def test_runs_with_values_have_it(tmp_path: Path) -> None:
    def case(runtime: Any) -> Any:
        options = runtime.RunOptions()
        options.add_active_adapter(loaded(runtime, written(runtime, tmp_path / "a.adapter", w=FIVES)))
        feed = {"x": runtime.OrtValue.ortvalue_from_numpy(ONE)}
        return session(runtime, LINEAR).run_with_ort_values(["y"], feed, options)[0].numpy()

    expect_agreement(case)


def test_runs_with_a_binding_have_it(tmp_path: Path) -> None:
    """onnxruntime ignores adapters there, with a warning in its log."""

    def case(runtime: Any) -> Any:
        options = runtime.RunOptions()
        options.add_active_adapter(loaded(runtime, written(runtime, tmp_path / "a.adapter", w=FIVES)))
        found = session(runtime, LINEAR)
        binding = found.io_binding()
        binding.bind_cpu_input("x", ONE)
        binding.bind_output("y")
        found.run_with_iobinding(binding, options)
        return binding.copy_outputs_to_cpu()

    expect_difference(case, [np.full((1, 3), 10, np.float32)])


@pytest.mark.parametrize("content", [None, b"", b"no adapter at all", b"\x08\0\0\0TORT"], ids=str)
def test_files_that_are_none(content: bytes | None, tmp_path: Path) -> None:
    """A missing or malformed file is a RuntimeError."""
    path = tmp_path / "a.adapter"
    if content is not None:
        path.write_bytes(content)
    expect_agreement(lambda runtime: loaded(runtime, path))
    expect_agreement(lambda runtime: runtime.AdapterFormat.read_adapter(str(path)))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """Writing into it is a RuntimeError."""
    expect_agreement(lambda runtime: runtime.AdapterFormat().export_adapter(str(tmp_path / "absent" / "a.adapter")))


def test_what_is_no_adapter_is_refused() -> None:
    """None and strangers are a TypeError; onnxruntime takes None and crashes later."""
    for wrong in (None, "path"):
        with pytest.raises(TypeError, match="LoraAdapter"):
            ort_py.RunOptions().add_active_adapter(wrong)  # type: ignore[arg-type]


def test_damaged_files_are_refused_or_read(tmp_path: Path) -> None:
    """Files with bytes changed at random raise one class of error or are still adapters; nothing else happens."""
    data = written(ort_py, tmp_path / "a.adapter", w=FIVES, v=np.arange(4), e=np.zeros((0, 2), np.float16)).read_bytes()
    choose = random.Random(5)
    for _ in range(3000):
        damaged = bytearray(data)
        for _ in range(choose.randint(1, 4)):
            place = choose.randrange(8, len(damaged) - 4)
            width = choose.choice(("B", "<H", "<I", "<q"))
            size = struct.calcsize(width)
            number = choose.choice((0, 1, 0x7F, choose.getrandbits(8 * size - 1)))
            struct.pack_into(width, damaged, min(place, len(damaged) - size), min(number, 2 ** (8 * size - 1) - 1))
        try:
            read_adapter_bytes(bytes(damaged[: choose.randint(8, len(damaged))] if choose.random() < 0.2 else damaged))
        except UsageError:
            continue


def test_many_parameters_over_the_same_bytes_are_refused() -> None:
    """A small file that would become a large amount of memory."""
    count, size = 200, 100_000
    names = [f"p{index:03}".encode() for index in range(count)]
    vtable = struct.pack("<6H", 12, 20, 4, 8, 12, 16)
    head = struct.pack("<I4s", 20, b"TORT") + vtable + struct.pack("<4iI", 12, 1, 0, 0, 4)
    tables = 44 + 4 * count
    texts = tables + 20 * count
    dims = texts + 8 * count
    data = dims + 12
    body = struct.pack("<I", count)
    body += b"".join(struct.pack("<I", tables + 20 * index - (44 + 4 * index)) for index in range(count))
    for index in range(count):
        at = tables + 20 * index
        body += struct.pack("<i4I", at - 8, texts + 8 * index - at - 4, dims - at - 8, 2, data - at - 16)
    body += b"".join(struct.pack("<I4s", 4, name) for name in names)
    body += struct.pack("<IqI", 1, size, size) + bytes(size)
    with pytest.raises(UsageError, match="overlap"):
        read_adapter_bytes(head + body)
