"""A picture made the tensor an input declares: resized, in the right layout, scaled, normalised.

Needs Pillow, which ort-py does not depend on: it is imported when the first picture is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ort_py import NodeArg
from ort_py.dtypes import TensorType, numpy_dtype, parse_value_type
from ort_py.errors import InvalidArgument, Location, NotFound
from ort_py.lazy_dataclass import dataclass

EXTENSIONS = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
LAYOUTS = ("nchw", "nhwc")
CHANNELS = (1, 3)


@dataclass(frozen=True, slots=True)
class PictureOptions:
    """Options for the conversion of pictures to tensors.

    Attributes:
        size: (height, width) instead of the declared one.
        layout: ``nchw`` or ``nhwc`` instead of what the declared shape says.
        scale: ``0-1`` or ``0-255``; None: 0-1 for floating inputs, 0-255 for others.
        mean: Subtracted after scaling: one number, or one per channel.
        std: Divided by after that.
    """

    size: tuple[int, int] | None = None
    layout: str | None = None
    scale: Literal["0-1", "0-255"] | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class _Form:
    """The form that an input requires. `channel_axis` counts from the end of the shape; 0 means no axis of channels."""

    batch: int
    has_batch: bool
    channels: int
    channel_axis: int
    height: int | None
    width: int | None


def read_picture(path: Path, argument: NodeArg, options: PictureOptions) -> np.ndarray[Any, Any]:
    """Convert a picture to the tensor that an input declares.

    Args:
        path: File in a format that Pillow reads.
        argument: The input: shape (N, C, H, W), (N, H, W, C), the same without N, or (H, W); C is 1 or 3.

    Returns:
        An array of the declared element type; a fixed batch is filled with copies of the picture.

    Raises:
        NotFound: Pillow is not installed.
        InvalidArgument: The file is not a picture, or the input does not have the shape of one.
    """
    declared = parse_value_type(argument.type)
    if not isinstance(declared, TensorType):
        raise _not_for_pictures(argument, f"its type is {argument.type}")
    dtype = numpy_dtype(declared.data_type)
    form = _form(argument, options.layout)
    pixels = _load(path, form, options.size)
    floating = dtype.kind not in "iub"
    scale = options.scale or ("0-1" if floating else "0-255")
    if not floating and (scale == "0-1" or options.mean or options.std):
        raise InvalidArgument(
            f"Input '{argument.name}' takes whole numbers ({argument.type}).",
            where=Location(value=argument.name),
            why="--scale 0-1, --mean and --std make fractions",
            fix="Leave them out: the model scales its input itself.",
        )
    values = pixels.astype(np.float32)
    if scale == "0-1":
        values /= 255
    values -= _a_channel(options.mean, "--mean", form.channels, 0.0)
    values /= _a_channel(options.std, "--std", form.channels, 1.0)
    if form.channel_axis == 0:
        values = values[:, :, 0]
    elif form.channel_axis == 3:
        values = values.transpose(2, 0, 1)
    if form.has_batch:
        values = np.broadcast_to(values, (form.batch, *values.shape))
    return np.ascontiguousarray(values.astype(dtype))


def _form(argument: NodeArg, layout: str | None) -> _Form:
    shape = argument.shape
    has_batch = len(shape) == 4
    inner = shape[1:] if has_batch else shape
    batch = shape[0] if has_batch and isinstance(shape[0], int) else 1
    if len(shape) == 2 and argument.rank_known:
        return _Form(1, False, 1, 0, _fixed(shape[0]), _fixed(shape[1]))
    if len(shape) not in (3, 4):
        raise _not_for_pictures(argument, f"its shape is {shape}")
    if layout is None:
        # Channels first wins where both ends could be channels: it is by far the more frequent layout.
        layout = "nchw" if inner[0] in CHANNELS else "nhwc" if inner[2] in CHANNELS else None
    if layout is None:
        raise InvalidArgument(
            f"Which axis of input '{argument.name}' holds the colours is not clear.",
            where=Location(value=argument.name),
            why=f"its shape is {shape}, and no axis has 1 or 3 channels",
            fix="Say it with --layout nchw or --layout nhwc.",
        )
    first = layout == "nchw"
    channels = inner[0] if first else inner[2]
    if isinstance(channels, int) and channels not in CHANNELS:
        raise _not_for_pictures(argument, f"as {layout} it has {channels} channels")
    height, width = (inner[1], inner[2]) if first else (inner[0], inner[1])
    return _Form(
        batch, has_batch, channels if isinstance(channels, int) else 3, 3 if first else 1, _fixed(height), _fixed(width)
    )


def _fixed(dim: int | str | None) -> int | None:
    return dim if isinstance(dim, int) else None


def _load(path: Path, form: _Form, size: tuple[int, int] | None) -> np.ndarray[Any, Any]:
    """Pixels of shape (height, width, channels), 0 to 255."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise NotFound(
            "Reading pictures needs the package Pillow, which is not installed.",
            where=Location(file=str(path)),
            why=str(error),
            fix="pip install pillow",
        ) from error
    try:
        with Image.open(path) as picture:
            converted = picture.convert("L" if form.channels == 1 else "RGB")
    except (UnidentifiedImageError, OSError, SyntaxError) as error:  # broken PNG chunks are a SyntaxError in Pillow
        if isinstance(error, FileNotFoundError):
            raise
        raise InvalidArgument(
            f"'{path}' cannot be read as a picture.",
            where=Location(file=str(path)),
            why=str(error),
            fix="Open it and save it as PNG.",
        ) from error
    height, width = size or (form.height or converted.height, form.width or converted.width)
    if (width, height) != converted.size:
        converted = converted.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(converted).reshape(height, width, form.channels)


def _a_channel(values: Sequence[float], option: str, channels: int, default: float) -> np.ndarray[Any, Any]:
    if len(values) not in (0, 1, channels):
        raise InvalidArgument(
            f"{option} has {len(values)} numbers, the picture {channels} channel(s).",
            fix=f"Give one number, or {channels} separated by commas.",
        )
    return np.asarray(values or (default,), np.float32)


def _not_for_pictures(argument: NodeArg, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"Input '{argument.name}' does not take a picture.",
        where=Location(value=argument.name),
        why=why,
        fix="Pictures go into inputs of shape (N, C, H, W) or (N, H, W, C) with 1 or 3 channels; give others a .npy.",
    )
