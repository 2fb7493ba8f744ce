"""Pictures made the tensor an input declares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ort_py import InvalidArgument, NodeArg, NotFound
from ort_py.cli.pictures import PictureOptions, read_picture

HEIGHT, WIDTH = 4, 6
PIXELS = np.random.default_rng(7).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """A small picture in colours."""
    Image.fromarray(PIXELS).save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


def read(picture: Path, shape: list[Any], type_text: str = "tensor(float)", **options: Any) -> np.ndarray[Any, Any]:
    """The picture for an input of a shape."""
    return read_picture(picture, NodeArg("x", type_text, shape), PictureOptions(**options))


def test_channels_first(picture: Path) -> None:
    """(N, 3, H, W): scaled to 0-1, colours first."""
    result = read(picture, ["N", 3, HEIGHT, WIDTH])
    np.testing.assert_allclose(result, PIXELS.transpose(2, 0, 1)[None] / 255.0, rtol=1e-6)
    assert result.dtype == np.float32
    assert result.flags.c_contiguous


def test_channels_last(picture: Path) -> None:
    """(N, H, W, 3): colours last."""
    result = read(picture, [1, HEIGHT, WIDTH, 3])
    np.testing.assert_allclose(result, PIXELS[None] / 255.0, rtol=1e-6)


@pytest.mark.parametrize(("shape", "expected"), [([3, HEIGHT, WIDTH], (3, 4, 6)), ([HEIGHT, WIDTH, 3], (4, 6, 3))])
def test_without_batch(picture: Path, shape: list[int], expected: tuple[int, ...]) -> None:
    """Three axes are a picture without a batch."""
    assert read(picture, shape).shape == expected


@pytest.mark.parametrize(
    ("shape", "expected"),
    [([1, 1, HEIGHT, WIDTH], (1, 1, 4, 6)), ([HEIGHT, WIDTH], (4, 6)), ([1, 4, 6, 1], (1, 4, 6, 1))],
)
def test_one_channel_is_grey(picture: Path, shape: list[int], expected: tuple[int, ...]) -> None:
    """One channel, or none, is a grey picture."""
    result = read(picture, shape, scale="0-255")
    assert result.shape == expected
    np.testing.assert_array_equal(result.reshape(4, 6), np.asarray(Image.open(picture).convert("L"), np.float32))


def test_resized_to_the_declared_size(picture: Path) -> None:
    assert read(picture, ["N", 3, 8, 10]).shape == (1, 3, 8, 10)


def test_resized_to_the_size_given(picture: Path) -> None:
    """--size decides where the model leaves it open."""
    assert read(picture, ["N", 3, "H", "W"], size=(8, 10)).shape == (1, 3, 8, 10)


def test_own_size_where_nobody_says(picture: Path) -> None:
    """A model that takes any size gets the picture as it is."""
    assert read(picture, ["N", 3, "H", "W"]).shape == (1, 3, HEIGHT, WIDTH)


def test_fixed_batch_is_filled(picture: Path) -> None:
    """A model of a fixed batch gets the picture as often."""
    result = read(picture, [2, 3, HEIGHT, WIDTH])
    assert result.shape[0] == 2
    np.testing.assert_array_equal(result[0], result[1])


def test_whole_numbers_stay_as_they_are(picture: Path) -> None:
    result = read(picture, [1, HEIGHT, WIDTH, 3], "tensor(uint8)")
    np.testing.assert_array_equal(result, PIXELS[None])


def test_scale_mean_and_deviation(picture: Path) -> None:
    """Scaled, then shifted, then divided, by channel."""
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    result = read(picture, [1, HEIGHT, WIDTH, 3], mean=mean, std=std)
    np.testing.assert_allclose(result, (PIXELS[None] / 255.0 - mean) / std, rtol=1e-5, atol=1e-6)


def test_unscaled(picture: Path) -> None:
    np.testing.assert_array_equal(read(picture, [1, 4, 6, 3], scale="0-255"), PIXELS[None].astype(np.float32))


@pytest.mark.parametrize("options", [{"mean": (1.0,)}, {"std": (2.0,)}, {"scale": "0-1"}])
def test_fractions_do_not_fit_whole_numbers(picture: Path, options: dict[str, Any]) -> None:
    """Normalising an integer input would round to nothing."""
    with pytest.raises(InvalidArgument, match="takes whole numbers"):
        read(picture, [1, HEIGHT, WIDTH, 3], "tensor(uint8)", **options)


def test_wrong_number_of_means(picture: Path) -> None:
    """Two numbers fit neither one value nor three channels."""
    with pytest.raises(InvalidArgument, match=r"--mean has 2 numbers, the picture 3 channel"):
        read(picture, [1, 3, 4, 6], mean=(1.0, 2.0))


def test_unclear_layout(picture: Path) -> None:
    """Where the shape does not say it, the layout must be given."""
    with pytest.raises(InvalidArgument, match="holds the colours is not clear") as caught:
        read(picture, ["N", "A", "B", "C"])
    assert "--layout" in caught.value.fix
    assert read(picture, ["N", "A", "B", "C"], layout="nhwc").shape == (1, HEIGHT, WIDTH, 3)


@pytest.mark.parametrize(
    ("shape", "type_text"), [([5], "tensor(float)"), ([1, 2, 3, 4, 5], "tensor(float)"), ([], "seq(tensor(float))")]
)
def test_inputs_that_take_no_picture(picture: Path, shape: list[int], type_text: str) -> None:
    """An input of another kind is refused by its shape or type."""
    with pytest.raises(InvalidArgument, match="does not take a picture"):
        read(picture, shape, type_text)


def test_wrong_number_of_channels(picture: Path) -> None:
    """A layout that gives four channels is refused."""
    with pytest.raises(InvalidArgument, match="does not take a picture") as caught:
        read(picture, [1, 4, 8, 8], layout="nchw")
    assert caught.value.why == ("as nchw it has 4 channels",)


def test_file_that_is_no_picture(tmp_path: Path) -> None:
    """Garbage is refused with what to do."""
    (tmp_path / "x.png").write_bytes(b"garbage")
    with pytest.raises(InvalidArgument, match="cannot be read as a picture"):
        read(tmp_path / "x.png", [1, 3, 4, 6])


def test_without_pillow(picture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The missing package is named with the command that installs it."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(NotFound, match="needs the package Pillow") as caught:
        read(picture, [1, 3, 4, 6])
    assert caught.value.fix == "pip install pillow"
