"""Operators that onnx defines, read from a file that an earlier process wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from core.tests.interpreters import answer
from core.tests.small_models import model_bytes
from ort_py import onnx_operators
from ort_py.mapped_parts import HEADER
from ort_py.onnx_operator_records import opsets_of_library, record, versions_of, write_operators
from ort_py.onnx_operators import OperatorFile, defined, find, library_key

LIBRARY = ("library", 1)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with all operators."""
    path = tmp_path_factory.mktemp("operators") / "operators"
    write_operators(str(path), LIBRARY)
    return path


def test_the_file_has_every_version_of_every_operator(written: Path) -> None:
    file = OperatorFile(str(written), LIBRARY)
    for schema in onnx.defs.get_all_schemas_with_history():
        versions = file.versions(schema.name, schema.domain)
        assert versions is not None
        assert record(schema) in versions
        assert versions == sorted(versions, key=lambda one: one.since_version)


def test_the_file_has_the_newest_opsets(written: Path) -> None:
    assert OperatorFile(str(written), LIBRARY).opsets == opsets_of_library()


def test_the_file_has_the_version_of_the_format(written: Path) -> None:
    assert OperatorFile(str(written), LIBRARY).ir_version == onnx.IR_VERSION


def test_the_file_has_the_defaults_of_attributes(written: Path) -> None:
    """Numbers, texts and lists as such, tensors as the message that they come in."""
    file = OperatorFile(str(written), LIBRARY)
    found: dict[tuple[str, str], Any] = {}
    for op_type, domain in (("Elu", ""), ("Conv", ""), ("Cast", ""), ("LabelEncoder", "ai.onnx.ml")):
        newest = (file.versions(op_type, domain) or [])[-1]
        found |= {(op_type, name): default for name, _, _, _, default in newest.attributes}
    assert found["Elu", "alpha"] == 1.0
    assert (found["Conv", "auto_pad"], found["Conv", "group"], found["Conv", "pads"]) == ("NOTSET", 1, None)
    assert (found["LabelEncoder", "default_string"], found["LabelEncoder", "default_int64"]) == ("_Unused", -1)
    tensor = found["LabelEncoder", "default_tensor"]
    assert tensor is None or isinstance(tensor, bytes)


def test_an_operator_that_onnx_does_not_define_has_no_versions(written: Path) -> None:
    assert OperatorFile(str(written), LIBRARY).versions("Unheard", "") == []


def test_the_file_of_another_library_does_not_count(written: Path) -> None:
    assert not OperatorFile(str(written), ("library", 2)).is_present


def test_a_truncated_file_does_not_count(written: Path, tmp_path: Path) -> None:
    path = tmp_path / "operators"
    path.write_bytes(written.read_bytes()[:-1])
    assert not OperatorFile(str(path), LIBRARY).is_present


def test_a_damaged_record_is_not_read(written: Path, tmp_path: Path) -> None:
    content = bytearray(written.read_bytes())
    end = int.from_bytes(content[8:16], "little")
    content[HEADER:end] = bytes(end - HEADER)
    path = tmp_path / "operators"
    path.write_bytes(content)
    assert OperatorFile(str(path), LIBRARY).versions("Relu", "") is None


def test_a_folder_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    write_operators(str(tmp_path / "absent" / "operators"), LIBRARY)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("opset", [1, 5, 6, 12, 13, 21])
def test_the_version_in_force_is_found(opset: int) -> None:
    found = find("Relu", "", opset)
    assert found is not None
    assert found.since_version == onnx.defs.get_schema("Relu", opset, "").since_version


def test_an_opset_before_the_first_version_has_none() -> None:
    assert find("LayerNormalization", "", 16) is None
    assert defined("LayerNormalization")


def test_a_deprecated_operator_is_found() -> None:
    found = find("Upsample", "", 21)
    assert found is not None
    assert found.deprecated


def test_without_a_file_the_library_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_operators, "_file", lambda: None)
    assert onnx_operators._versions.__wrapped__("Relu", "") == tuple(versions_of("Relu", ""))
    assert onnx_operators.newest_opsets.__wrapped__() == opsets_of_library()
    assert onnx_operators.ir_version.__wrapped__() == onnx.IR_VERSION


def test_another_library_has_another_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    keys = []
    for path in paths:
        path.write_bytes(b"")
        monkeypatch.setattr(onnx_operators, "native_file", lambda path=path: str(path))
        keys.append(library_key())
    assert keys[0] != keys[1]


def test_a_session_does_without_the_library_once_the_file_is_there(tmp_path: Path) -> None:
    """Nor is protobuf imported. The file may be written by the first of these processes, or was by an earlier one."""
    path = tmp_path / "model.onnx"
    path.write_bytes(model_bytes("g (float[N, 3] x) => (float[N, 3] y) { z = Relu(x) y = Add(z, z) }"))
    code = """
import sys
sys.dont_write_bytecode = False
import ort_py
options = ort_py.SessionOptions()
options.cache_dir = "off"
ort_py.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
from ort_py import onnx_operators
from ort_py.cache.writing import process_queue
process_queue().wait()
file = onnx_operators._file()
needless = {"onnx.onnx_cpp2py_export", "google.protobuf"} & set(sys.modules)
print(file is None or not file.is_present or not needless)
"""
    assert [answer(code, str(path)) for _ in range(2)] == ["True", "True"]


def test_operators_that_a_program_registers_are_its_own(tmp_path: Path) -> None:
    """The library tells of them in that process; the file, which all processes read, has none of them."""
    code = (
        "import sys, onnx\n"
        "from ort_py.onnx_operator_records import write_operators\n"
        "from ort_py.onnx_operators import OperatorFile, defined, newest_opsets\n"
        "onnx.defs.register_schema(onnx.defs.OpSchema('Twice', 'my.domain', 1))\n"
        "write_operators(sys.argv[1], ('library',))\n"
        "file = OperatorFile(sys.argv[1], ('library',))\n"
        "print(defined('Twice', 'my.domain'), 'my.domain' in newest_opsets())\n"
        "print(file.versions('Twice', 'my.domain'), 'my.domain' in file.opsets)\n"
    )
    assert answer(code, str(tmp_path / "operators")).splitlines() == ["True True", "[] False"]
