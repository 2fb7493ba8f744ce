"""ImageDecoder: an encoded picture as an array of pixels.

Runs on the host, through Pillow, which is an extra of the distribution. Streams are not to be trusted: only the formats
of the specification are tried, and a picture's size is read from its header and asked for before anything is decoded.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument, LimitError, Location
from ort_py.errors import NotImplemented as NotSupported
from ort_py_array.checks import shape_error

__all__ = ["FORMATS", "KERNELS", "image_decoder"]

FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")
"""What the specification lists, by Pillow's names; PPM is the whole family of portable formats."""

_CHANNELS = {"RGB": 3, "BGR": 3, "Grayscale": 1}


def image_decoder(ctx: KernelContext) -> KernelCallable:
    """ImageDecoder-20: uint8 stream ``(bytes,)`` → uint8 ``(height, width, channels)``.

    As the specification has it, a stream that cannot be decoded gives an empty picture, ``(0, 0, channels)``. Pictures
    of more than 8 bits a channel keep the upper ones; transparency is dropped; of several pictures, the first counts.

    Raises:
        InvalidArgument: Unknown pixel format, or a stream that is not one-dimensional.
        NotImplemented: Pillow is not installed.
        LimitError: The picture is larger than the session's limits or Pillow's own (``Image.MAX_IMAGE_PIXELS``) allow.
    """
    where = ctx.node.location
    pixel_format = ctx.node.attributes.get("pixel_format", "RGB")
    if pixel_format not in _CHANNELS:
        raise InvalidArgument(
            f"pixel_format is '{pixel_format}'.", where=where, fix=f"Use one of {', '.join(_CHANNELS)}."
        )
    library = _library(where)

    def run(stream: Any) -> Array:
        if stream.ndim != 1:
            raise shape_error("ImageDecoder needs a stream of shape (bytes,).", where, [stream.shape])
        return _decoded(ctx, library, stream.tobytes(), pixel_format)

    return run


def _library(where: Location) -> Any:
    try:
        from PIL import Image
    except Exception as error:  # a missing shared library is an OSError
        raise NotSupported(
            "ImageDecoder needs Pillow, which cannot be imported.",
            where=where,
            why=f"{type(error).__name__}: {error}",
            fix='Install it: pip install "ort-py-cpu[images]".',
        ) from error
    return Image


def _decoded(ctx: KernelContext, library: Any, stream: bytes, pixel_format: str) -> Array:
    channels, where = _CHANNELS[pixel_format], ctx.node.location
    nothing = np.zeros((0, 0, channels), np.uint8)
    try:
        picture = library.open(BytesIO(stream), formats=FORMATS)
    except (library.DecompressionBombError, library.DecompressionBombWarning) as error:
        raise _too_large(library, where, str(error)) from error
    except Exception:  # Pillow's readers raise all kinds of errors on broken streams
        return nothing
    with picture:
        width, height = picture.size
        # Up to twice its limit Pillow only warns.
        if library.MAX_IMAGE_PIXELS is not None and width * height > library.MAX_IMAGE_PIXELS:
            raise _too_large(library, where, f"it is {width} × {height} pixels large")
        ctx.check_allocation((height, width, channels), np.uint8)
        try:
            pixels = _pixels(picture, "L" if channels == 1 else "RGB")
        except Exception:  # as above: what is cut off or corrupt shows only now
            return nothing
    if channels == 1:
        return pixels[:, :, None]
    return np.ascontiguousarray(pixels[:, :, ::-1]) if pixel_format == "BGR" else pixels


def _too_large(library: Any, where: Location, why: str) -> LimitError:
    return LimitError(
        "The encoded picture is larger than Pillow's limit.",
        where=where,
        why=why,
        fix=f"Feed a picture of at most {library.MAX_IMAGE_PIXELS} pixels, or raise PIL.Image.MAX_IMAGE_PIXELS.",
    )


def _pixels(picture: Any, mode: str) -> Any:
    """A new array of the picture in a mode of Pillow's: "L" or "RGB"."""
    if picture.mode.startswith("I"):  # 16 bits a pixel, which Pillow itself would cut off at 255
        gray = np.clip(np.array(picture), 0, 65535)
        eight = (gray >> 8).astype(np.uint8)
        return eight if mode == "L" else np.repeat(eight[:, :, None], 3, axis=2)
    return np.array(picture if picture.mode == mode else picture.convert(mode))


KERNELS = [
    KernelDef(
        "ImageDecoder",
        image_decoder,
        since=20,
        host_inputs=frozenset({0}),
        host_outputs=frozenset({0}),
        implementation=f"{__name__}:image_decoder",
    )
]
