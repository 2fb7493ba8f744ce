"""Positions of the windows of convolutions and pools: kernel, strides, dilations, padding and output sizes.

Pure arithmetic on Python integers, for one to any number of spatial axes; knows no arrays. `Window` is made once a
node from the attributes, `Window.placed` once for each size of picture. Convolution, pooling and their quantised
forms start here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.errors import InvalidArgument, Location
from ort_py.lazy_dataclass import dataclass

__all__ = ["Placement", "Placements", "Window", "require_auto_pad", "require_kernel"]

_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def require_auto_pad(where: Location, auto_pad: object) -> None:
    """Compare the attribute ``auto_pad`` with what the specification allows.

    Args:
        where: The node.
        auto_pad: The attribute; bytes where it is no UTF-8.

    Raises:
        InvalidArgument: It is something else.
    """
    if auto_pad not in _AUTO_PADS:
        raise InvalidArgument(f"auto_pad is '{auto_pad!s}'.", where=where, fix=f"Use one of {', '.join(_AUTO_PADS)}.")


def require_kernel(where: Location, named: tuple[int, ...], kernel: tuple[int, ...]) -> None:
    """Compare the attribute ``kernel_shape`` with the spatial sizes of the weights.

    Args:
        where: The node.
        named: The attribute; empty where the model leaves it out.
        kernel: Spatial sizes of the weights.

    Raises:
        InvalidArgument: They differ.
    """
    if named and named != kernel:
        raise InvalidArgument(
            f"kernel_shape is {list(named)}, but the weights' spatial shape is {list(kernel)}.",
            where=where,
            fix="Leave kernel_shape out, or make it equal to the weights' shape.",
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """A window laid over a picture of a known size; one entry a spatial axis.

    Attributes:
        size: Input size.
        kernel, strides, dilations: As in the attributes, completed with ones.
        begin: Padding before the picture.
        end: Padding after the picture as the model asks for it; ceil mode may look further.
        out: Output size.
    """

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """Padded positions that are read along each axis, from the first padding position on."""
        return tuple(
            (o - 1) * s + (k - 1) * d + 1
            for o, s, k, d in zip(self.out, self.strides, self.kernel, self.dilations, strict=True)
        )

    @property
    def taps(self) -> int:
        """Positions of the kernel."""
        count = 1
        for k in self.kernel:
            count *= k
        return count


@dataclass(frozen=True, slots=True)
class Window:
    """The window attributes of one node, as given: empty tuples stand for the specification's defaults.

    Attributes:
        where: The node.
        kernel, strides, dilations, pads, auto_pad, ceil_mode: Its attributes.
        clipped: ONNX's own shape inference and onnxruntime's pools divide towards zero. So a window that is larger than
            the padded picture by less than a stride counts, and covers only the picture. If it is larger by up to two
            strides, exclusive, no window fits and the result is empty.
    """

    where: Location
    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    auto_pad: str = "NOTSET"
    ceil_mode: bool = False
    clipped: bool = False

    def __post_init__(self) -> None:
        require_auto_pad(self.where, self.auto_pad)
        for name, values in (("kernel_shape", self.kernel), ("strides", self.strides), ("dilations", self.dilations)):
            if any(value < 1 for value in values):
                raise InvalidArgument(
                    f"{name} is {list(values)}; every entry must be at least 1.",
                    where=self.where,
                    fix=f"Give {name} entries of 1 or more.",
                )
        if any(pad < 0 for pad in self.pads):
            raise InvalidArgument(
                f"pads is {list(self.pads)}; no entry may be negative.",
                where=self.where,
                fix="Pad by 0 or more; crop with Slice.",
            )

    def placed(self, size: Sequence[int], kernel: Sequence[int] = ()) -> Placement:
        """Lay the window over a picture.

        Args:
            size: Spatial sizes of the input.
            kernel: Spatial sizes of the weights; where empty, the attribute's.

        Raises:
            InvalidArgument: An attribute has the wrong length, the weights contradict ``kernel_shape``, or the
                kernel is larger than the padded picture.
        """
        rank = len(size)
        kernel = tuple(kernel) or self.kernel
        for name, values, length in (
            ("kernel_shape", kernel, rank),
            ("strides", self.strides or (1,) * rank, rank),
            ("dilations", self.dilations or (1,) * rank, rank),
            ("pads", self.pads or (0,) * (2 * rank), 2 * rank),
        ):
            if len(values) != length:
                raise InvalidArgument(
                    f"{name} is {list(values)}, but the input has {rank} spatial axes of sizes {list(size)}.",
                    where=self.where,
                    fix=f"Give {name} {length} entries.",
                )
        require_kernel(self.where, self.kernel, kernel)
        axes = [
            self._axis(size[i], kernel[i], (self.strides or (1,) * rank)[i], (self.dilations or (1,) * rank)[i], i)
            for i in range(rank)
        ]
        begin, end, out = (tuple(axis[part] for axis in axes) for part in range(3))
        return Placement(
            tuple(size), kernel, self.strides or (1,) * rank, self.dilations or (1,) * rank, begin, end, out
        )

    def _axis(self, size: int, kernel: int, stride: int, dilation: int, axis: int) -> tuple[int, int, int]:
        """(padding before, padding after, output size) along one axis."""
        extent = (kernel - 1) * dilation + 1
        if self.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            out = -(-size // stride)
            total = max(0, (out - 1) * stride + extent - size)
            before = total // 2 if self.auto_pad == "SAME_UPPER" else total - total // 2
            return before, total - before, out
        rank = len(self.pads) // 2
        before, after = (self.pads[axis], self.pads[axis + rank]) if self.pads and self.auto_pad == "NOTSET" else (0, 0)
        room = size + before + after - extent
        out = (-(-room // stride) if self.ceil_mode else room // stride) + 1
        # A window that would start in the padding after the picture sees no picture: the specification drops it.
        if self.ceil_mode:
            out -= (out - 1) * stride >= size + before
        elif self.clipped and room < 0:
            out = 1 - (-room // stride)
        if out < (not self.clipped):
            raise InvalidArgument(
                f"The kernel is larger than the padded input along spatial axis {axis}: it spans {extent} positions "
                f"(kernel {kernel}, dilation {dilation}), the input has {size} + {before} + {after} = "
                f"{size + before + after}.",
                where=self.where,
                fix="Feed a larger input, or pad more.",
            )
        return before, after, out


_REMEMBERED = 16
"""Sizes whose placement is kept; a dictionary that stops growing is safe to share between threads."""


class Placements:
    """A window and its placements on the sizes met first."""

    __slots__ = ("_known", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], Placement] = {}

    def placed(self, size: tuple[int, ...], kernel: tuple[int, ...] = ()) -> Placement:
        """Like `Window.placed`, computed once for each size."""
        place = self._known.get(key := (size, kernel))
        if place is None:
            place = self._window.placed(size, kernel)
            if len(self._known) < _REMEMBERED:
                self._known[key] = place
        return place
