"""Convolutions. The gradient of the data is a transposed convolution, that of the filters a convolution over the batch.

Both are first computed without pads, and what is too much or too little at the ends is put right with one Pad, whose
pads, negative where it crops, follow from the shapes of the run: so strides that do not divide, `auto_pad` and unknown
sizes need no cases of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.contracts import ValueSpec
from ort_py.lazy_dataclass import dataclass
from ort_py.transforms.gradient.registry import Call, Gradients, rule, unsupported

if TYPE_CHECKING:
    from ort_py.transforms.gradient.builder import GradientBuilder


@dataclass(frozen=True, slots=True)
class Window:
    """Positions of windows over the spatial axes of a tensor.

    Attributes:
        rank: Number of spatial axes.
        strides, dilations: Strides and dilations of the windows.
        begin: Vector of pads at the front.
        full: Vector of the sizes that all windows together cover.
        size: Vector of the sizes of the tensor itself.
    """

    rank: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: str
    full: str
    size: str

    def cropped(self, b: GradientBuilder, value: str) -> str:
        """Crop from the area that the windows cover to the tensor, on the last axes of `value`; its first two axes
        stay.
        """
        return self._pad(b, value, b("Neg", self.begin), b("Add", b("Sub", self.size, self.full), self.begin))

    def padded(self, b: GradientBuilder, value: str) -> str:
        """Pad from the tensor to the area that the windows cover."""
        return self._pad(b, value, self.begin, b("Sub", b("Sub", self.full, self.size), self.begin))

    @staticmethod
    def _pad(b: GradientBuilder, value: str, begin: str, end: str) -> str:
        none = b.ints(0, 0)
        return b("Pad", value, b.concat(none, begin, none, end), 0.0)


def window_of(b: GradientBuilder, call: Call, kernel: str, data: ValueSpec, result: ValueSpec) -> Window:
    """The windows of a convolution or of pooling.

    Args:
        b: The builder.
        call: The call, for its attributes.
        kernel: Vector of the sizes of the kernel.
        data: The tensor that the windows lie over.
        result: The value with one element for each window.
    """
    rank = call.rank(0) - 2
    strides = _each(call, "strides", rank)
    dilations = _each(call, "dilations", rank)
    size = b.part(b.shape(data), 2, rank + 2)
    count = b.part(b.shape(result), 2, rank + 2)
    one = b.ints(*[1] * rank)
    reach = b("Add", b("Mul", b("Sub", kernel, one), b.ints(*dilations)), one)
    full = b("Add", b("Mul", b("Sub", count, one), b.ints(*strides)), reach)
    mode = call.attribute("auto_pad", "NOTSET")
    if mode == "NOTSET":
        begin = b.ints(*tuple(call.attribute("pads") or (0,) * rank)[:rank])
    elif mode == "VALID":
        begin = b.ints(*[0] * rank)
    else:
        begin = _same(b, b("Sub", full, size), upper=mode == "SAME_UPPER", rank=rank)
    return Window(rank, strides, dilations, begin, full, size)


def _same(b: GradientBuilder, missing: str, *, upper: bool, rank: int) -> str:
    """Pads at the front where what is missing is shared between both ends."""
    none, two = b.ints(*[0] * rank), b.ints(*[2] * rank)
    total = b("Mul", missing, b("Cast", b("Less", none, missing), to=7))
    half = b("Div", total, two)
    return half if upper else b("Sub", total, half)


def _each(call: Call, name: str, rank: int) -> tuple[int, ...]:
    return tuple(call.attribute(name) or (1,) * rank)


def filter_gradient(b: GradientBuilder, data: str, grad: str, window: Window, groups: int, kernel: ValueSpec) -> str:
    """Gradient of filters of shape (out, in / groups, ...).

    Args:
        b: The builder.
        data: (batch, in, ...), all that the windows cover.
        grad: (batch, out, ...).
        window: Position of the windows.
        groups: Groups of channels.
        kernel: The filters, for their shape.
    """
    spatial = range(2, window.rank + 2)
    if groups > 1:
        # (batch, groups, in / groups, ...) -> (in / groups, groups * batch, ...)
        ends = b.part(b.shape(data), 2, window.rank + 2)
        data = b("Reshape", data, b.concat(b.ints(0, groups, -1), ends))
        data = b.transpose(data, 2, 1, 0, *[axis + 1 for axis in spatial])
        data = b("Reshape", data, b.concat(b.part(b.shape(kernel), 1, 2), b.ints(-1), ends))
    else:
        data = b.transpose(data, 1, 0, *spatial)
    filters = b.transpose(grad, 1, 0, *spatial)
    # The batch is what is summed over, so it takes the place of the channels; strides and dilations change places.
    found = b("Conv", data, filters, strides=window.dilations, dilations=window.strides, group=groups)
    return b.transpose(found, 1, 0, *spatial)


def _bias(b: GradientBuilder, call: Call, rank: int) -> str | None:
    return b.sum(call.grad, (0, *range(2, rank + 2))) if call.wants(2) else None


@rule("Conv")
def conv(b: GradientBuilder, call: Call) -> Gradients:
    """Convolution with filters (out, in / groups, ...)."""
    data, filters, g = call.input(0), call.input(1), call.grad
    groups = int(call.attribute("group", 1))
    kernel = b.part(b.shape(filters), 2, call.rank(0))
    window = window_of(b, call, kernel, data, call.output(0))
    grads: list[str | None] = [None, None, None]
    if call.wants(0):
        grads[0] = window.cropped(b, _transposed(b, g, filters.name, window, groups))
    if call.wants(1):
        grads[1] = filter_gradient(b, window.padded(b, data.name), g, window, groups, filters)
    grads[2] = _bias(b, call, window.rank)
    return grads


def _transposed(b: GradientBuilder, value: str, filters: str, window: Window, groups: int) -> str:
    return b("ConvTranspose", value, filters, strides=window.strides, dilations=window.dilations, group=groups)


@rule("ConvTranspose")
def conv_transpose(b: GradientBuilder, call: Call) -> Gradients:
    """Transposed convolution with filters (in, out / groups, ...)."""
    data, filters = call.input(0), call.input(1)
    groups = int(call.attribute("group", 1))
    kernel = b.part(b.shape(filters), 2, call.rank(0))
    if call.attribute("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or call.attribute("output_shape"):
        raise unsupported(call, "its pads follow from auto_pad or output_shape; only attributes pads are covered")
    # Seen from its result, this is a convolution backwards: windows lie over the result.
    window = window_of(b, call, kernel, call.output(0), data)
    g = window.padded(b, call.grad)
    grads: list[str | None] = [None, None, None]
    if call.wants(0):
        grads[0] = b("Conv", g, filters.name, strides=window.strides, dilations=window.dilations, group=groups)
    if call.wants(1):
        grads[1] = filter_gradient(b, g, data.name, window, groups, filters)
    grads[2] = _bias(b, call, window.rank)
    return grads
