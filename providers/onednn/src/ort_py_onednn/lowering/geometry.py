"""Windows over spatial dimensions: paddings and sizes as ONNX defines them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Window", "window"]


class Window:
    """Resolved geometry of a convolution or pooling.

    Attributes:
        kernel, strides, dilations, begin, end: One number a spatial dimension.
        sizes: Spatial sizes of the result.
        rooms: Elements that a window can be moved by in the padded picture; negative where it is larger.
    """

    __slots__ = ("begin", "dilations", "end", "kernel", "rooms", "sizes", "strides")

    def __init__(
        self, spatial: Sequence[int], kernel: Sequence[int], attributes: Mapping[str, Any], *, ceil: bool = False
    ) -> None:
        rank = len(spatial)
        self.kernel = tuple(kernel)
        self.strides = tuple(attributes.get("strides") or (1,) * rank)
        self.dilations = tuple(attributes.get("dilations") or (1,) * rank)
        mode = attributes.get("auto_pad", "NOTSET")
        begin, end = [0] * rank, [0] * rank
        if mode in {"SAME_UPPER", "SAME_LOWER"}:
            for axis in range(rank):
                total = max(
                    0,
                    (-(-spatial[axis] // self.strides[axis]) - 1) * self.strides[axis]
                    + self._reach(axis)
                    - spatial[axis],
                )
                small, large = total // 2, total - total // 2
                begin[axis], end[axis] = (small, large) if mode == "SAME_UPPER" else (large, small)
        elif mode != "VALID":
            pads = tuple(attributes.get("pads") or (0,) * (2 * rank))
            begin, end = list(pads[:rank]), list(pads[rank:])
        sizes = []
        self.rooms = tuple(spatial[axis] + begin[axis] + end[axis] - self._reach(axis) for axis in range(rank))
        for axis, room in enumerate(self.rooms):
            size = (-(-room // self.strides[axis]) if ceil else room // self.strides[axis]) + 1
            if ceil and (size - 1) * self.strides[axis] >= spatial[axis] + begin[axis]:
                size -= 1  # a window must not begin in the padding behind
            sizes.append(size)
            if ceil:
                end[axis] = (size - 1) * self.strides[axis] + self._reach(axis) - spatial[axis] - begin[axis]
        self.begin, self.end, self.sizes = tuple(begin), tuple(end), tuple(sizes)

    def _reach(self, axis: int) -> int:
        return int((self.kernel[axis] - 1) * self.dilations[axis] + 1)


def window(
    spatial: Sequence[int], kernel: Sequence[int], attributes: Mapping[str, Any], *, ceil: bool = False
) -> Window:
    """The geometry of windows of size `kernel` over `spatial`."""
    return Window(spatial, kernel, attributes, ceil=ceil)
