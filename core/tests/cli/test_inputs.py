"""Feeds from files named on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py import InvalidArgument, NodeArg, NoSuchFile
from ort_py.cli.inputs import add_input_arguments, make_feeds

X = NodeArg("x", "tensor(float)", ["N", 3])
Y = NodeArg("y", "tensor(float)", [2])


def feeds(declared: list[NodeArg], *arguments: object, overridable: tuple[NodeArg, ...] = ()) -> dict[str, Any]:
    """The feeds of a command line."""
    parser = argparse.ArgumentParser()
    add_input_arguments(parser)
    return make_feeds(declared, overridable, parser.parse_args([str(argument) for argument in arguments])).values


def saved(folder: Path, array: Any, name: str = "x.npy") -> Path:
    """A .npy file."""
    np.save(folder / name, array)
    return folder / name


def test_name_may_be_left_out_for_a_single_input(tmp_path: Path) -> None:
    """A file without a name is for the only input."""
    assert list(feeds([X], "--input", saved(tmp_path, np.ones((1, 3), np.float32)))) == ["x"]


def test_name_is_needed_for_several_inputs(tmp_path: Path) -> None:
    """With two inputs, which one is meant must be said."""
    path = saved(tmp_path, np.ones(3))
    with pytest.raises(InvalidArgument, match=r"It is not clear which input(.|\n)*the model has 2") as caught:
        feeds([X, Y], "--input", path)
    assert caught.value.fix == f"Write --input NAME={path}."


def test_unknown_names_are_left_to_the_session(tmp_path: Path) -> None:
    """The session knows best what the inputs are."""
    assert list(feeds([X], "--input", f"z={saved(tmp_path, np.ones(3))}")) == ["z"]


def test_missing_file(tmp_path: Path) -> None:
    """A file that is not there is named."""
    with pytest.raises(NoSuchFile, match=r"The input file '.*none\.npy' does not exist"):
        feeds([X], "--input", f"x={tmp_path}/none.npy")


def test_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(NoSuchFile, match="is not a file"):
        feeds([X], "--input", f"x={tmp_path}")


def test_garbage_is_no_array(tmp_path: Path) -> None:
    """The message says how to write an array."""
    (tmp_path / "x.npy").write_bytes(b"garbage")
    with pytest.raises(InvalidArgument, match="cannot be read as an array") as caught:
        feeds([X], "--input", tmp_path / "x.npy")
    assert "numpy.save" in caught.value.fix


def test_pickles_are_not_read(tmp_path: Path) -> None:
    """Loading a pickle would run what is in it."""
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(InvalidArgument, match="cannot be read as an array"):
        feeds([X], "--input", tmp_path / "x.npy")


def test_member_of_an_npz(tmp_path: Path) -> None:
    """NAME=FILE.npz takes the array of that name."""
    np.savez(tmp_path / "all.npz", x=np.ones(3), other=np.zeros(3))
    assert list(feeds([X], "--input", f"x={tmp_path}/all.npz")) == ["x"]


def test_absent_member_of_an_npz(tmp_path: Path) -> None:
    """A name the archive does not have is refused with those it has."""
    np.savez(tmp_path / "all.npz", other=np.zeros(3))
    with pytest.raises(InvalidArgument, match="has no array 'x'") as caught:
        feeds([X], "--input", f"x={tmp_path}/all.npz")
    assert "'other'" in caught.value.why[0]


def test_types_numpy_lacks_are_read_back(tmp_path: Path) -> None:
    """A saved bfloat16 array is raw bytes to NumPy; the declared type says what they are."""
    path = saved(tmp_path, np.array([1.5, 2], ml_dtypes.bfloat16))
    (value,) = feeds([NodeArg("x", "tensor(bfloat16)", [2])], "--input", path).values()
    assert value.dtype == np.dtype(ml_dtypes.bfloat16)
    assert value.astype(np.float32).tolist() == [1.5, 2]


def test_overridable_initializer_may_be_fed(tmp_path: Path) -> None:
    """An optional input takes a file too, and is not made up."""
    assert list(feeds([X], "--generate", "zeros", overridable=(Y,))) == ["x"]
    path = saved(tmp_path, np.ones(2, np.float32))
    assert set(feeds([X], "--generate", "zeros", "--input", f"y={path}", overridable=(Y,))) == {"x", "y"}


@pytest.mark.parametrize(
    ("option", "text"),
    [(("--dim", "M=2"), "no symbolic dimension 'M'"), (("--shape", "xx=2"), "no input 'xx'")],
)
def test_sizes_of_unknown_things_are_refused(option: tuple[str, str], text: str) -> None:
    """A misspelt dimension or input is not silently without effect."""
    with pytest.raises(InvalidArgument, match=text) as caught:
        feeds([X], *option)
    assert "Did you mean" in caught.value.fix or "ort-py info" in caught.value.fix


def test_picture_for_an_unknown_input(tmp_path: Path) -> None:
    """The way a picture is read depends on the input, so its name must be right."""
    (tmp_path / "x.png").write_bytes(b"")
    with pytest.raises(InvalidArgument, match="The model has no input 'z'"):
        feeds([X], "--input", f"z={tmp_path}/x.png")
