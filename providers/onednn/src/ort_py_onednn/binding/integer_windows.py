"""Exact sums of products of 8-bit integers over windows, in machine code, for CPUs with AVX2 and without VNNI.

oneDNN adds pairs of products of bytes in 16 bits there, where they overflow. Here factors are widened to 16 bits, so
that an instruction multiplies two pairs and adds both products in 32 bits: twice as many products an instruction as
with float32, and each is exact. `WindowSums` reads a picture that `widening` wrote and weights in blocks of sixteen
outputs, and turns sums into real numbers or bytes on the way out.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding.assembler import (
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    Assembler,
    At,
)
from ort_py_onednn.binding.constants import F32, Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.instructions import AVX2, AVX512
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import CLEAR, ENTER, LEAVE, OwnCode, placed
from ort_py_onednn.binding.widening import CHANNELS, claim, padded, widening_code

__all__ = ["BLOCK", "OUTPUTS", "Residual", "WindowSums", "has_window_sums", "packed_factors", "packed_weights"]

BLOCK = 16
"""Outputs whose weights lie together."""

OUTPUTS = 8
"""Outputs are a multiple of this: half a block."""

_ROWS = 6
"""Pixels whose sums are in registers at once: six times sixteen, in twelve registers."""

_CHUNK = 96
"""Pixels of a piece of work; a multiple of `_ROWS`."""

_ORDER = (0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15)
"""Outputs of a block in the order in which two registers hold them: packing registers takes halves in turns."""

(
    _LOWEST,
    _HIGHEST,
    _ZERO,
    _SLOPE,
    _OFFSET,
    _LAST_SLOPE,
    _LAST_OFFSET,
    _LAST_LOWEST,
    _LAST_HIGHEST,
    _BLOCKS,
) = range(0, 320, 32)
"""Bytes at which factors have numbers, eight times each: bounds and zero point of a result, what is done before and
behind the addition of a tensor, bounds behind it; and those of blocks."""

_PIXELS, _CHUNKS, _TAPS, _STEPS, _BLOCK_BYTES, _PIXEL_BYTES, _OUTPUTS, _STEPS_START = range(0, 64, 8)
"""Places in the table of `WindowSums`; the pixels' starts stand behind the taps."""

_AT_SOURCE, _AT_RESULT, _AT_ADDED = At(RDI), At(RDI, 8), At(RDI, 32)
_AT_ALL_FACTORS, _AT_TABLE, _AT_ALL_WEIGHTS = At(RDI, 40), At(RDI, 48), At(RDI, 56)
_FRAME = 64
_AT_FACTORS, _AT_WEIGHTS, _AT_TARGET, _AT_STARTS, _AT_FULL = (At(RSP, 8 * place) for place in range(5))
_SOURCES = (R8, R9, R10, R11, RBX, RSI)
"""Registers with the addresses of the pixels of a tile."""


def _sums_code(result: Element, residual: tuple[Element, bool] | None) -> bytes:
    """Code of ``void sums(struct { int16_t *source; void *target; int64_t count, next; void *added, *factors, *table,
    *weights; } *)``; arguments as of `_write`."""
    a = Assembler()
    a.digits(ENTER)
    a.add_number(RSP, -_FRAME)
    a.move(R13, _AT_TABLE)
    piece = a.size
    end = claim(a)
    _enter(a, result)
    tile = a.size
    a.compare_whole(R14, R15)
    a.jump_if("at least", piece)
    _add_products(a)
    _write(a, result, residual)
    a.add_number(R14, _ROWS)
    a.digits("e9")  # jmp tile
    a.jump(tile)
    a.land(end)
    a.add_number(RSP, _FRAME)
    a.digits(CLEAR + LEAVE)
    return a.code()


def _enter(a: Assembler, result: Element) -> None:
    """Append code that finds what a piece of work reads and writes: its first pixel is left in r14, the one behind its
    last in r15. Pieces of one block of outputs follow each other.
    """
    a.digits("4899")  # cqo
    a.digits("49f7bd" + (_CHUNKS).to_bytes(4, "little").hex())  # idiv qword [r13 + chunks]
    a.move(R12, RAX)
    a.set_number(RAX, _CHUNK)
    a.multiply(RDX, RAX)
    a.move(R14, RDX)
    a.move(R15, RDX)
    a.add_number(R15, _CHUNK)
    a.compare_whole(R15, At(R13, _PIXELS))
    whole = a.jump_if("at most")
    a.move(R15, At(R13, _PIXELS))
    a.land(whole)
    a.move(RAX, R12)
    a.shift(RAX, 7)
    a.add_number(RAX, _BLOCKS)
    a.add(RAX, _AT_ALL_FACTORS)
    a.keep(RAX, _AT_FACTORS)
    a.move(RAX, At(R13, _BLOCK_BYTES))
    a.multiply(RAX, R12)
    a.add(RAX, _AT_ALL_WEIGHTS)
    a.keep(RAX, _AT_WEIGHTS)
    a.move(RAX, At(R13, _TAPS))
    a.shift(RAX, 3)
    a.add_number(RAX, _STEPS_START)
    a.add(RAX, R13)
    a.keep(RAX, _AT_STARTS)
    a.shift(R12, 4)
    a.move(RAX, At(R13, _OUTPUTS))
    a.subtract(RAX, R12)
    a.keep(RAX, _AT_FULL)  # outputs from this block on: fewer than sixteen are eight
    if result.nbytes == 4:
        a.shift(R12, 2)
    a.add(R12, _AT_RESULT)
    a.keep(R12, _AT_TARGET)


def _add_products(a: Assembler) -> None:
    """Append code that adds up the products of the pixels from r14 on in registers 0 to 11, two for each pixel."""
    a.move(RAX, R14)
    a.shift(RAX, 3)
    a.add(RAX, _AT_STARTS)
    for place, register in enumerate(_SOURCES):
        a.move(register, At(RAX, 8 * place))
        a.add(register, _AT_SOURCE)
    for one in range(2 * _ROWS):
        a.do("vxorps", one, one, one)
    a.move(RDX, _AT_WEIGHTS)
    a.move(R12, At(R13, _TAPS))
    a.move(RBP, R13)
    a.add_number(RBP, _STEPS_START)
    tap = a.size
    a.move(RAX, At(RBP))
    for register in _SOURCES:
        a.add(register, RAX)
    a.add_number(RBP, 8)
    a.move(RCX, At(R13, _STEPS))
    inner = a.size
    for pair in range(2):
        a.read(12, At(RDX, 64 * pair))
        a.read(13, At(RDX, 64 * pair + 32))
        for place, register in enumerate(_SOURCES):
            a.spread(14, At(register, 4 * pair))
            a.do("vpmaddwd", 15, 14, 12)
            a.do("vpaddd", 2 * place, 2 * place, 15)
            a.do("vpmaddwd", 14, 14, 13)
            a.do("vpaddd", 2 * place + 1, 2 * place + 1, 14)
    for register in _SOURCES:
        a.add_number(register, 8)
    a.add_number(RDX, 128)
    a.add_number(RCX, -1)
    a.jump_if("unequal", inner)
    a.add_number(R12, -1)
    a.jump_if("unequal", tap)


def _write(a: Assembler, result: Element, residual: tuple[Element, bool] | None) -> None:
    """Append code that writes the sums of a tile.

    Args:
        a: The code.
        result: The type of results.
        residual: The type of a tensor that is added, and whether sums are rounded before.
    """
    a.move(RDX, _AT_FACTORS)
    a.move(RBP, _AT_ALL_FACTORS)
    for one in range(2 * _ROWS if result != Element.S32 else 0):
        a.change("vcvtdq2ps", one, one)
        a.do("vmulps", one, one, At(RDX, 32 * (one % 2)))
        a.do("vaddps", one, one, At(RDX, 64 + 32 * (one % 2)))
        a.do("vmaxps", one, one, At(RBP, _LOWEST))
        a.do("vminps", one, one, At(RBP, _HIGHEST))
        if residual is None and result != F32:
            _round(a, one)
    a.move(RAX, R14)
    a.multiply(RAX, At(R13, _PIXEL_BYTES))
    a.add(RAX, _AT_TARGET)
    a.move(RCX, R15)
    a.subtract(RCX, R14)  # pixels that are left
    a.move(RDX, _AT_FULL)
    a.set_number(RBX, BLOCK)
    if residual is not None:
        a.move(RSI, _AT_ADDED)
        a.subtract(RSI, _AT_RESULT)
    done = []
    for row in range(_ROWS):
        if residual is not None:
            _add(a, (2 * row, 2 * row + 1), *residual)
        _write_pixel(a, result, 2 * row)
        if row + 1 < _ROWS:
            a.add(RAX, At(R13, _PIXEL_BYTES))
            a.add_number(RCX, -1)
            done.append(a.jump_if("equal"))
    for jump in done:
        a.land(jump)


def _round(a: Assembler, one: int) -> None:
    """Append code that makes integers of numbers, which lie within the type already."""
    a.change("vcvtps2dq", one, one)
    a.do("vpaddd", one, one, At(RBP, _ZERO))


def _add(a: Assembler, sums: tuple[int, int], element: Element, rounds: bool) -> None:
    """Append code that adds the integers of a tensor that lies as the result does to the sums of a pixel."""
    convert = 0x31 if element == Element.U8 else 0x21
    a.move(R8, RAX)
    a.add(R8, RSI)
    a.compare_whole(RDX, RBX)
    narrow = a.jump_if("less")
    a.half("read16", 15, At(R8))
    a.digits("e9")  # jmp read
    read = a.jump()
    a.land(narrow)
    a.half("read8", 15, At(R8))
    a.land(read)
    a.exchange(15, 15)
    a.vex(1, 2, convert, 14, None, 15)  # vpmovzxbd or vpmovsxbd
    a.upper(15, 15)
    a.vex(1, 2, convert, 15, None, 15)
    for one, added in zip(sums, (14, 15), strict=True):
        a.change("vcvtdq2ps", added, added)
        if rounds:
            a.round(one, one)
        for slope, offset in ((_SLOPE, _OFFSET), (_LAST_SLOPE, _LAST_OFFSET)):
            a.read(13, At(RBP, slope))
            a.do("vfmadd213ps", one, 13, At(RBP, offset))
            if slope == _SLOPE:
                a.do("vaddps", one, one, added)
        a.do("vmaxps", one, one, At(RBP, _LAST_LOWEST))
        a.do("vminps", one, one, At(RBP, _LAST_HIGHEST))
        _round(a, one)


def _write_pixel(a: Assembler, result: Element, first: int) -> None:
    """Append code that writes the numbers of two registers: the outputs of a block for a pixel."""
    second = first + 1
    if result.nbytes == 4:
        a.half("write16", first, At(RAX))
        a.half("write16", second, At(RAX, 16))
    else:
        pack = "vpackuswb" if result == Element.U8 else "vpacksswb"
        a.do("vpackssdw", first, first, second)
        a.do(pack, first, first, first)
        a.half("write8", first, At(RAX))
    a.compare_whole(RDX, RBX)
    narrow = a.jump_if("less")
    a.vex(1, 3, 0x39, first, None, 15, 1)  # vextracti128
    if result.nbytes == 4:
        a.vex(1, 3, 0x39, second, None, 14, 1)
        a.half("write16", 15, At(RAX, 32))
        a.half("write16", 14, At(RAX, 48))
    else:
        a.half("write8", 15, At(RAX, 8))
    a.land(narrow)


@functools.cache
def _sums_address(library: Library, result: Element, residual: tuple[Element, bool] | None = None) -> int:
    return placed(library, _sums_code(result, residual))


def has_window_sums(library: Library) -> bool:
    """Return whether there is code for this CPU that is faster than with float32, and the system lets it run."""
    if not library.isa & AVX2 or library.isa & AVX512:  # as many products of float32 in registers twice as long
        return False
    return bool(_sums_address(library, F32) and widening_code(library, Element.U8, CHANNELS, given=False))


def packed_weights(weights: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Weights (outputs, inputs, height, width) of int8 as `WindowSums` reads them.

    Returns:
        int32 (blocks, height · width, pairs of inputs, 16), two numbers of 16 bits in each.
    """
    outputs, channels, *kernel = weights.shape
    blocks, inputs = -(-outputs // BLOCK), padded(channels)
    whole = np.zeros((blocks * BLOCK, inputs, kernel[0] * kernel[1]), np.int16)
    whole[:outputs, :channels] = weights.reshape(outputs, channels, -1)
    pairs = whole.reshape(blocks, BLOCK, inputs // 2, 2, -1)[:, list(_ORDER)]
    found: np.ndarray[Any, Any] = np.ascontiguousarray(pairs.transpose(0, 4, 2, 1, 3)).view(np.int32)
    return found.reshape(blocks, kernel[0] * kernel[1], inputs // 2, BLOCK)


def packed_factors(
    scales: np.ndarray[Any, Any],
    bias: np.ndarray[Any, Any],
    bounds: tuple[float, float],
    zero: int,
    residual: Residual | None = None,
) -> np.ndarray[Any, Any]:
    """What becomes of sums, as `WindowSums` reads it.

    Args:
        scales: Of each output.
        bias: Added behind.
        bounds: Between which the result lies before the zero point is added, or the tensor.
        zero: The zero point.
        residual: The tensor that is added.

    Returns:
        float32.
    """
    rest = (0.0,) * 6 if residual is None else (*residual.before, *residual.behind, *residual.bounds)
    head = np.repeat(np.array([*bounds, 0, *rest], np.float32), 8)
    head[16:24] = np.full(8, zero, np.int32).view(np.float32)
    blocks = -(-scales.size // BLOCK)
    whole = np.zeros((blocks, 2, BLOCK), np.float32)
    for place, vector in enumerate((scales, bias)):
        spread = np.zeros(blocks * BLOCK, np.float32)
        spread[: vector.size] = vector
        whole[:, place] = spread.reshape(blocks, BLOCK)[:, list(_ORDER)]
    return np.concatenate([head, whole.reshape(-1)])


@dataclass(frozen=True, slots=True)
class Residual:
    """A tensor of bytes that is added to sums: ``slope₂ · (slope₁ · sum + offset₁ + tensor) + offset₂``, within bounds.

    Attributes:
        element: Its type.
        rounds: Whether sums are rounded to whole numbers first.
        before: Slope and offset in front of the addition.
        behind: Those behind it.
        bounds: Of the result, before the zero point is added.
    """

    element: Element
    rounds: bool
    before: tuple[float, float]
    behind: tuple[float, float]
    bounds: tuple[float, float]


class WindowSums(OwnCode):
    """Sums of products over the windows of a picture that `Widening` wrote.

    Args:
        library: The library.
        source: The picture's layout.
        weights: The layout of `packed_weights`.
        factors: That of `packed_factors`.
        target: (pictures, outputs, height, width) with channels innermost, of uint8, int8, int32 or float32.
        kernel: Height and width of a window.
        strides: From one window to the next.
        dilations: From one number of a window to the next.
        residual: A tensor of bytes that is added, laid out like the result, which has bytes, too.
    """

    __slots__ = ("bound", "table")

    def __init__(
        self,
        library: Library,
        source: Desc,
        weights: Desc,
        factors: Desc,
        target: Desc,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        residual: Residual | None = None,
    ) -> None:
        (_, height, width, pairs), (count, outputs, *sizes) = source.dims, target.dims
        pixel = 4 * pairs
        taps = [
            (row * dilations[0] * width + column * dilations[1]) * pixel
            for row in range(kernel[0])
            for column in range(kernel[1])
        ]
        steps = np.diff(taps, prepend=-pixel) - pixel  # a step before has gone over a pixel
        rows, columns = (np.arange(size) * stride for size, stride in zip(sizes, strides, strict=True))
        starts = np.arange(count)[:, None, None] * height * width + rows[:, None] * width + columns
        starts = starts.reshape(-1) * pixel
        pixels = starts.size
        chunks = -(-pixels // _CHUNK)
        bytes_ = (len(taps) * pairs * 64, outputs * target.dtype.nbytes)
        head = [pixels, chunks, len(taps), pairs // 2, *bytes_, outputs]
        table = np.concatenate([head, steps, starts, np.full(_ROWS, starts[-1])]).astype(np.int64)
        self.table = table.view(np.int32)
        arguments = {
            Argument.SRC: source,
            Argument.SRC_1: Desc.plain(self.table.shape, Element.S32),
            Argument.WEIGHTS: weights,
            Argument.BIAS: factors,
            Argument.DST: target,
        }
        self.bound = OwnCode.bound
        variant = None
        if residual is not None:
            variant = residual.element, residual.rounds
            place = Argument.post_op(0)
            arguments[place] = Desc.channels_last(target.dims, residual.element)
            self.bound = (*self.bound, (3, place))
        code = _sums_address(library, target.dtype, variant)
        super().__init__(library, arguments, code, "own:windows:avx2", -(-outputs // BLOCK) * chunks)

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """See `OwnCode`."""
        work = super().work(addresses)
        codes = (Argument.BIAS, Argument.SRC_1, Argument.WEIGHTS)
        for place, code in enumerate(codes, 5):
            work[place] = addresses[code]
        return work
