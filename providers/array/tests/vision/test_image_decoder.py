"""ImageDecoder: formats and pixel formats, pictures of other modes, broken streams, and what is too large."""

from __future__ import annotations

import builtins
import re
import struct
import zlib
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ort_py import errors
from ort_py.errors import InvalidArgument, LimitError
from ort_py_array.vision.image_decoder import FORMATS

from ..oracle import run, sample
from ..test_limits import call

PICTURE = np.kron(sample((3, 4, 3), np.uint8, low=0, high=255), np.ones((8, 8, 1), np.uint8))
LOSSLESS = ("BMP", "PNG", "TIFF", "PPM")


def encoded(pixels: Any, format_: str = "PNG", **options: Any) -> Any:
    """A stream of a picture, as a tensor."""
    stream = BytesIO()
    (pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)).save(stream, format_, **options)
    return np.frombuffer(stream.getvalue(), np.uint8)


def decoded(stream: Any, pixel_format: str = "RGB") -> Any:
    """The picture that the kernel decodes from a stream."""
    return run("ImageDecoder", [stream], opset=20, pixel_format=pixel_format)[0]


def header(width: int, height: int) -> Any:
    """A PNG of a size, that has no pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return np.frombuffer(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", b"") + chunk(b"IEND", b""), "u1")


@pytest.mark.parametrize("format_", LOSSLESS)
def test_pixels_come_back(format_: str) -> None:
    """From every format that keeps them."""
    y = decoded(encoded(PICTURE, format_))
    assert (y.dtype, y.flags.c_contiguous) == (np.uint8, True)
    np.testing.assert_array_equal(y, PICTURE)


@pytest.mark.parametrize("format_", ["JPEG", "JPEG2000", "WEBP"])
def test_lossy_formats_come_close(format_: str) -> None:
    """At their best quality, with slow changes of colour, which are kind to them."""
    down, across = np.meshgrid(np.linspace(0, 255, 24), np.linspace(0, 255, 40), indexing="ij")
    slow = np.stack((down, across, 255 - down), axis=-1).astype(np.uint8)
    y = decoded(encoded(slow, format_, **({} if format_ == "JPEG2000" else {"quality": 100})))
    assert y.shape == slow.shape
    assert np.abs(y.astype(int) - slow).mean() < 4


def test_every_allowed_format_is_tested() -> None:
    assert set(FORMATS) == {*LOSSLESS, "JPEG", "JPEG2000", "WEBP"}


def test_blue_may_come_first() -> None:
    """BGR is RGB turned round, and an array of its own."""
    y = decoded(encoded(PICTURE), "BGR")
    np.testing.assert_array_equal(y, PICTURE[:, :, ::-1])
    assert y.flags.c_contiguous


def test_gray_is_the_luma_of_colours() -> None:
    """ITU-R 601, as everywhere: one channel."""
    y = decoded(encoded(PICTURE), "Grayscale")
    assert y.shape == (*PICTURE.shape[:2], 1)
    assert np.abs(y[:, :, 0] - PICTURE @ np.array([0.299, 0.587, 0.114])).max() <= 1


def test_gray_pictures_have_equal_colours() -> None:
    """Also where they are one bit a pixel or have a palette."""
    gray = PICTURE[:, :, 0]
    np.testing.assert_array_equal(decoded(encoded(gray)), np.repeat(gray[:, :, None], 3, axis=2))
    bits = Image.fromarray(gray > 100)
    np.testing.assert_array_equal(decoded(encoded(bits), "Grayscale")[:, :, 0], np.where(gray > 100, 255, 0))
    palette = Image.fromarray(PICTURE).quantize(64)
    np.testing.assert_array_equal(decoded(encoded(palette)), np.array(palette.convert("RGB")))


def test_transparency_is_dropped() -> None:
    """Colours stay what they are, however transparent."""
    pixels = np.concatenate((PICTURE, np.zeros_like(PICTURE[:, :, :1])), axis=2)
    np.testing.assert_array_equal(decoded(encoded(pixels)), PICTURE)


@pytest.mark.parametrize("pixel_format", ["RGB", "Grayscale"])
def test_deep_pictures_keep_their_upper_bits(pixel_format: str) -> None:
    """16 bits a pixel are scaled, not cut off at 255."""
    deep = np.arange(0, 65536, 256 * 8 + 3, dtype=np.uint16).reshape(4, -1)
    y = decoded(encoded(deep), pixel_format)
    np.testing.assert_array_equal(y, np.broadcast_to((deep >> 8)[:, :, None], y.shape))


def test_the_first_of_several_pictures_counts() -> None:
    other = Image.fromarray(255 - PICTURE)
    stream = encoded(PICTURE, "TIFF", save_all=True, append_images=[other])
    np.testing.assert_array_equal(decoded(stream), PICTURE)


@pytest.mark.parametrize(("pixel_format", "channels"), [("RGB", 3), ("BGR", 3), ("Grayscale", 1)])
@pytest.mark.parametrize("kept", [0, 5, 40, -30])
def test_what_cannot_be_decoded_is_an_empty_picture(kept: int, pixel_format: str, channels: int) -> None:
    """The specification requires this for streams that are empty, truncated or corrupt."""
    y = decoded(encoded(PICTURE)[:kept], pixel_format)
    assert (y.shape, y.dtype) == ((0, 0, channels), np.uint8)


@pytest.mark.parametrize("format_", ["GIF", "ICO", "TGA", "PCX", "DDS"])
def test_other_formats_are_not_tried(format_: str) -> None:
    """Pillow knows many more, each with a decoder that a stranger's stream could reach."""
    assert decoded(encoded(PICTURE, format_)).shape == (0, 0, 3)


def test_a_large_picture_is_refused_before_it_is_decoded() -> None:
    """Its header is enough: there are no pixels in this stream."""
    with pytest.raises(LimitError, match=re.escape("too large: (5000, 3000, 3)")):
        call("ImageDecoder", [header(3000, 5000)], {}, opset=20)


@pytest.mark.parametrize("factor", [1.5, 3])
def test_pillows_own_limit_is_an_error(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow refuses some files, and only warns of others."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    stream = header(100, int(10 * factor))
    with pytest.raises(
        LimitError, match=r"larger than Pillow's limit[\s\S]*what to do: Feed a picture of at most 1000"
    ):
        decoded(stream)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_pillows_own_limit_is_an_error_whatever_its_warnings_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(LimitError, match=r"100 × 15 pixels"):
        decoded(header(100, 15))


def test_without_pillow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the kernel is bound: what is missing, where, why, and how to get it."""
    original = builtins.__import__

    def without(name: str, *args: Any, **keywords: Any) -> Any:
        if name == "PIL":
            raise ImportError("No module named 'PIL'")
        return original(name, *args, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(errors.NotImplemented) as caught:
        call("ImageDecoder", [header(1, 1)], {}, opset=20)
    assert "ImageDecoder_under_test" in str(caught.value.where)
    assert "No module named 'PIL'" in caught.value.why[0]
    assert 'pip install "ort-py-cpu[images]"' in caught.value.fix


def test_unknown_pixel_formats_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"pixel_format is 'HSV'[\s\S]*Use one of RGB, BGR, Grayscale"):
        decoded(header(1, 1), "HSV")


def test_a_stream_is_one_dimensional() -> None:
    """A matrix of bytes is none."""
    with pytest.raises(InvalidArgument, match=r"needs a stream of shape \(bytes,\)[\s\S]*what to do"):
        decoded(header(1, 1).reshape(1, -1))
