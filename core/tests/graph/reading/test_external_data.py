"""Tensors in files beside the model: every way they can be wrong, each with its text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ort_py.dtypes import DataType
from ort_py.errors import Fail, InvalidGraph, OrtPyError
from ort_py.graph.reading.external_data import ExternalFiles
from ort_py.graph.weights.weight_store import WeightStore
from ort_py.limits import Budget, Limits

pytestmark = pytest.mark.quick


@pytest.fixture
def files(tmp_path: Path) -> ExternalFiles:
    """A model's folder with 100 bytes of data."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "w.bin").write_bytes(bytes(range(100)))
    (tmp_path / "secret").write_bytes(bytes(100))
    return ExternalFiles(tmp_path / "model", WeightStore(), Budget(Limits()))


def refused(files: ExternalFiles, entries: dict[str, str], kind: type[OrtPyError]) -> str:
    """The text of the error that reading 4 floats with these entries raises."""
    with pytest.raises(kind) as caught:
        files.weight("w", entries, DataType.FLOAT, (4,))
    assert type(caught.value) is kind
    assert "value 'w'" in str(caught.value)
    assert caught.value.fix
    return str(caught.value)


def test_data_is_found_by_offset(files: ExternalFiles) -> None:
    """Location, offset and length give the bytes."""
    weight = files.weight("w", {"location": "w.bin", "offset": "8", "length": "16"}, DataType.FLOAT, (4,))
    assert weight.array().tobytes() == bytes(range(8, 24))
    assert weight.array().dtype == np.float32


def test_offset_and_length_may_be_left_out(files: ExternalFiles) -> None:
    """Data then starts with the file and has the length it needs."""
    assert files.weight("w", {"location": "w.bin"}, DataType.UINT8, (3,)).array().tolist() == [0, 1, 2]


def test_the_file_counts_once(files: ExternalFiles) -> None:
    """Relative limits follow the size of external files."""
    for _ in range(3):
        files.weight("w", {"location": "w.bin"}, DataType.FLOAT, (4,))
    assert files._budget.file_bytes == 100


@pytest.mark.parametrize("location", ["../secret", "a/../../secret", "..", "a\\..\\..\\secret"])
def test_dots_are_refused(files: ExternalFiles, location: str) -> None:
    """No path may climb, in the spelling of any system."""
    text = refused(files, {"location": location}, Fail)
    assert "is outside the model's folder" in text
    assert "the path contains '..'" in text


@pytest.mark.parametrize("location", ["/etc/passwd", "C:\\secret", "C:secret", "\\\\host\\share", "\\secret"])
def test_absolute_paths_are_refused(files: ExternalFiles, location: str) -> None:
    """No path may start at a root or a drive, in the spelling of any system."""
    assert "the path is absolute" in refused(files, {"location": location}, Fail)


def test_links_out_of_the_folder_are_refused(files: ExternalFiles, tmp_path: Path) -> None:
    """The link is in the folder, what it points to is not."""
    (tmp_path / "model" / "link.bin").symlink_to(tmp_path / "secret")
    text = refused(files, {"location": "link.bin"}, Fail)
    assert "is outside the model's folder" in text
    assert "it is a link to" in text


def test_missing_files_are_named(files: ExternalFiles, tmp_path: Path) -> None:
    """The text says which file and where it was looked for."""
    text = refused(files, {"location": "none.bin"}, Fail)
    assert "The external file 'none.bin' does not exist." in text
    assert f"looked in {str(tmp_path / 'model')!r}" in text


def test_folders_are_no_data(files: ExternalFiles, tmp_path: Path) -> None:
    (tmp_path / "model" / "sub").mkdir()
    assert "cannot be read" in refused(files, {"location": "sub"}, Fail)


def test_ranges_past_the_end_are_refused(files: ExternalFiles) -> None:
    """The text has the range and the size of the file."""
    text = refused(files, {"location": "w.bin", "offset": "90"}, Fail)
    assert "extends beyond the end" in text
    assert "bytes 90 to 106 are needed, but the file has 100" in text


def test_wrong_lengths_are_refused(files: ExternalFiles) -> None:
    """The length must be what type and shape need."""
    text = refused(files, {"location": "w.bin", "length": "12"}, InvalidGraph)
    assert "length is 12; float[4] requires 16 bytes" in text


@pytest.mark.parametrize("number", ["-1", "1e3", "٣", "9" * 20, "0x10", " 8"])
def test_numbers_that_are_none_are_refused(files: ExternalFiles, number: str) -> None:
    """Offsets are decimal digits and nothing else."""
    assert "External data has the offset" in refused(files, {"location": "w.bin", "offset": number}, InvalidGraph)


@pytest.mark.parametrize("location", ["", ".", "a\0b"])
def test_locations_without_a_file_are_refused(files: ExternalFiles, location: str) -> None:
    """An empty location is a mistake of whoever saved the model."""
    with pytest.raises(InvalidGraph, match="its location does not name a file"):
        files.weight("w", {"location": location}, DataType.FLOAT, (4,))


def test_strings_cannot_be_external(files: ExternalFiles) -> None:
    """ONNX has no format for them."""
    with pytest.raises(InvalidGraph, match=r"'w' has strings in an external file(.|\n)*in the model only"):
        files.weight("w", {"location": "w.bin"}, DataType.STRING, (4,))


def test_a_model_without_a_folder_says_how_to_name_one() -> None:
    """Bytes do not say where they come from; the current directory is not guessed."""
    store, budget = WeightStore(), Budget(Limits())
    text = refused(ExternalFiles(None, store, budget), {"location": "w.bin"}, Fail)
    assert "was passed without a folder" in text
    assert "name the folder of the external data" in text
