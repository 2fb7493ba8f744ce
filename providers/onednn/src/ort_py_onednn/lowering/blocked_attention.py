"""Attention over long sequences, some rows of one head at a time: scores stay in the cache and are never all there.

All scores of 1,500 rows and columns and 8 heads are 72 MB, which go to memory and back three times, and their softmax
takes twice as long as that of scores in the cache. In blocks the softmax is four pieces besides: the largest of a row,
the exponentials, their sum, and a division, which waits until sums are multiplied with values and are few. Where
oneDNN's product of matrices would pack both factors in each call, keys and values are packed once for all blocks of a
head. A mask is added to a block of scores, also in the cache. Comes from `attention`, which does itself what is short.

Source: Dao et al., FlashAttention, 2022, for the order of the work; the rows here are whole, so no sum is mended later.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, Algorithm, Argument, Binary, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.instructions import AVX512
from ort_py_onednn.binding.picture_products import FASTER, picture_product
from ort_py_onednn.binding.primitive import Function, Primitive, Unimplemented
from ort_py_onednn.execution.plan import Buffer, Place
from ort_py_onednn.graph.functions import linear
from ort_py_onednn.lowering.attention_masks import HeadMask, Masks, held
from ort_py_onednn.lowering.parts import copy_into
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["in_blocks"]

_FEWEST = 16
"""Rows of a block and thread, below which products are slow."""

_MOST_HEADS = 256
"""Heads of all sequences above which planning each of them takes too long."""

_KEYS, _VALUES = 0, 1
"""Factors of the two products that are packed once for all blocks of a head."""

_TILE = 16
"""Columns in which oneDNN turns matrices; what is left over it turns element by element."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The attentions that blocks pay for.

    Attributes:
        scores: The least number of scores of one head.
        all_scores: The least number of scores of all heads.
        narrowest: The least size of a head.
        block: Bytes of scores that each thread works on.
        fewest: The least number of blocks of a head; with 1, a head may be one smaller block.
    """

    scores: int
    all_scores: int
    narrowest: int
    block: int
    fewest: int


_PLAIN = _Sizes(scores=0, all_scores=4 << 20, narrowest=32, block=3 << 18, fewest=2)
"""Where products read keys and values as they lie. All scores have to be too many for the caches, a block stays in a
cache of 1 MiB beside keys and values, and products of blocks of narrow heads are slower than those of all rows by more
than the softmax gains.
"""

_PACKED = _Sizes(scores=1 << 16, all_scores=0, narrowest=1, block=1 << 18, fewest=1)
"""Where keys and values are packed once for all blocks of a head. On a Zen 4 without AVX-512, of the time of all
rows at once blocks take 0.97 for 128 rows and heads of 64, 0.8 for 256, and 0.74 from 512 on; 0.7 for heads of 8.
Shorter ones gain less than planning each head takes in the first run.
"""


@dataclass(frozen=True, slots=True)
class _Head:
    """One head's matrices: where they begin in their tensors, and strides of rows."""

    value: Value
    start: int
    rows: int
    size: int
    stride: int

    def part(self, planner: Planner, first: int, desc: Desc) -> Value:
        """Rows from one on, as something laid out like `desc`."""
        return planner.piece(self.value, self.start + first * self.stride, desc)


def in_blocks(
    planner: Planner, query: Value, key: Value, value: Value, functions: Sequence[Function], masks: Masks
) -> Value | None:
    """``softmax(f(query keyᵀ) + mask) value``, plain ``(batch, heads, rows, size)``.

    Args:
        planner: The planner.
        query, key, value: ``(batch, heads, rows, size)``, views; there may be fewer heads of keys and values.
        functions: What becomes of scores before anything is added.
        masks: What hides scores.

    Returns:
        The result; None where it is short, or values do not lie so that a head is a matrix in the arena.
    """
    batch, heads, rows, _ = query.dims
    columns, size = value.dims[2:]
    if batch * heads > _MOST_HEADS or key.dims[0] != batch or heads % key.dims[1]:
        return None
    if not all(_is_cut(one) for one in (query, key, value)):
        return None
    if any(one.dims[3] != columns or one.dtype != F32 for one in masks.all):
        return None
    chosen = _chosen(planner, functions, masks, (batch * heads, rows), (columns, query.dims[3], size))
    if chosen is None:
        return None
    steps, block = chosen
    found = planner.new(Desc.plain((batch * heads * rows, size)))
    sums = planner.new(Desc.plain((batch * heads * rows, 1)))
    shared = heads // key.dims[1]
    hidden = [held(planner, one) for one in masks.all]
    for sequence in range(batch):
        for head in range(heads):
            if head % shared == 0:
                of = [_head(one, sequence, head // shared) for one in (key, value)]
                factors = steps.turned(of[0]), steps.mixed(of[1])
            first = (sequence * heads + head) * rows
            hiding = [one.of_head(sequence, head) for one in hidden]
            matrices = steps.gathered(_head(query, sequence, head)), *factors
            steps.attend(matrices, hiding, block, (found, sums, first))
    if masks.may_hide or masks.seen is not None:
        sums = _at_least(planner, sums)
    division = planner.make(lambda: primitives.binary(Binary.DIV, found.desc, sums.desc, found.desc), found.desc)
    divided = planner.new(found.desc)
    given = {Argument.SRC: found, Argument.SRC_1: sums, Argument.DST: divided}
    planner.emit(division, given, in_place=Argument.SRC)
    return planner.reshaped(divided, (batch, heads, rows, size))


_LEAST = 0.5
"""Bound of sums of exponentials, of which the largest is 1: only a row that is hidden wholly has a smaller sum, 0."""


def _at_least(planner: Planner, sums: Value) -> Value:
    bounded, desc = Function(Eltwise.CLIP_V2, _LEAST, math.inf), sums.desc
    found = planner.new(desc)
    primitive = planner.make(lambda: primitives.eltwise(bounded, desc, desc), desc)
    planner.emit(primitive, {Argument.SRC: sums, Argument.DST: found}, in_place=Argument.SRC)
    return found


def _chosen(
    planner: Planner,
    functions: Sequence[Function],
    masks: Masks,
    of: tuple[int, int],
    sizes: tuple[int, int, int],
) -> tuple[_Steps, int] | None:
    """Return the steps of a head and the rows of a block; None where blocks do not pay.

    Args:
        planner: The planner.
        functions: What becomes of scores.
        masks: What hides them.
        of: Number of heads, and rows of one.
        sizes: Columns, size of a query, size of a value.
    """
    (heads, rows), columns = of, sizes[0]
    for pays in (_PLAIN,) if planner.library.isa & AVX512 else (_PACKED, _PLAIN):
        block = max(_FEWEST, pays.block // (4 * columns) // _FEWEST * _FEWEST) * planner.threads
        if rows * columns < max(pays.scores, pays.all_scores // heads) or min(sizes[1:]) < pays.narrowest:
            continue
        if pays.fewest > 1 and rows < pays.fewest * block:
            continue
        block = min(block, rows)
        steps = _Steps(planner, functions, masks, sizes, packs=pays is _PACKED)
        if all(steps.know(count) for count in {block, rows % block} - {0}):
            return steps, block
    return None


def _is_cut(value: Value) -> bool:
    """Return whether a head is a matrix with rows in one piece, in a buffer that pieces can be cut from."""
    desc, buffer = value.desc, value.buffer
    plain = desc.key is not None and not desc.is_blocked and desc.strides[3] == 1 and value.dtype == F32
    return plain and buffer is not None and buffer.place is Place.ARENA and buffer.whole is None


def _head(value: Value, sequence: int, head: int) -> _Head:
    desc = value.desc
    assert desc.key is not None, "asked before"
    start = desc.key[4] + sequence * desc.strides[0] + head * desc.strides[1]
    return _Head(value, start, value.dims[2], value.dims[3], desc.strides[2])


@dataclass(frozen=True, slots=True)
class _Block:
    """The primitives for some rows of a head, in order, each with its number of threads.

    Attributes:
        scores, largest: Layouts of what lies between.
        product, peak, exponential, total, mixture: The primitives.
        hiding: The primitives that masks are added with, and multiplied.
    """

    scores: Desc
    largest: Desc
    product: tuple[Primitive, int]
    peak: tuple[Primitive, int]
    exponential: tuple[Primitive, int]
    total: tuple[Primitive, int]
    mixture: tuple[Primitive, int]
    hiding: Sequence[tuple[Primitive, int]]


class _Steps:
    """The steps for a head; all heads are alike, so are their primitives.

    Args:
        planner: The planner.
        functions: What becomes of scores.
        masks: What hides them.
        sizes: Columns, size of a query, size of a value.
        packs: Whether products read packed keys and values.
    """

    def __init__(
        self,
        planner: Planner,
        functions: Sequence[Function],
        masks: Masks,
        sizes: tuple[int, int, int],
        *,
        packs: bool,
    ) -> None:
        self._masks = masks
        self._packs = packs
        self._planner = planner
        self._functions = [one for one in functions if one != linear(1.0)]
        self._sizes = sizes
        self._blocks: dict[int, _Block] = {}
        self._packed: dict[int, Desc] = {}

    def know(self, rows: int) -> bool:
        """Return whether oneDNN has fast code for blocks of so many rows; asked before anything is planned with
        them.
        """
        try:
            block = self._blocks[rows] = self._made(rows)
        except Unimplemented:
            return False
        steps = (block.product, *block.hiding, block.peak, block.exponential, block.total, block.mixture)
        return not any(primitive.is_reference for primitive, _ in steps)

    def _made(self, rows: int) -> _Block:
        columns, size, width = self._sizes
        scores, column = Desc.plain((rows, columns)), Desc.plain((rows, 1))
        # Exponentials are never negative, and those of a row that is hidden wholly are not numbers: Relu makes them 0.
        exponential = (Function(Eltwise.EXP), *((Function(Eltwise.RELU),) if self._masks.may_hide else ()))
        reduction = primitives.reduction
        return _Block(
            scores,
            column,
            self._product(_KEYS, (rows, size, columns), self._functions),
            self._light(scores, lambda: reduction(Algorithm.REDUCTION_MAX, scores, column)),
            self._light(scores, lambda: primitives.binary(Binary.SUB, scores, column, scores, exponential)),
            self._light(scores, lambda: reduction(Algorithm.REDUCTION_SUM, scores, column)),
            self._product(_VALUES, (rows, columns, width)),
            [self._hiding(one, scores) for one in self._masks.all],
        )

    def _hiding(self, mask: Value, scores: Desc) -> tuple[Primitive, int]:
        """The primitive that adds a mask to scores, or multiplies exponentials with it."""
        algorithm = Binary.MUL if mask is self._masks.seen else Binary.ADD
        numbers = scores if mask.dims[2] > 1 else Desc.plain((1, scores.dims[1]))
        return self._light(scores, lambda: primitives.binary(algorithm, scores, numbers, scores))

    def _product(
        self, factor: int, sizes: tuple[int, int, int], functions: Sequence[Function] = ()
    ) -> tuple[Primitive, int]:
        rows, depth, columns = sizes
        left, right, target = Desc.plain((rows, depth)), Desc.plain((depth, columns)), Desc.plain((rows, columns))

        def build() -> Primitive:
            found = primitives.matmul(left, right, None, target, functions)
            if not self._packs:
                return found
            faster = FASTER.get(found.implementation)
            if faster is None:
                raise Unimplemented("a product that packs both of its factors")
            packed = self._packed.get(factor) or Desc.any((columns, depth, 1, 1))
            return picture_product(left, packed, None, target, faster, functions)

        made = self._planner.make_heavy(build, float(math.prod(sizes)))
        if self._packs:
            self._packed[factor] = made.arguments[Argument.WEIGHTS]
        return made, self._planner.count

    def _light(self, size: Desc, build: Callable[[], Primitive]) -> tuple[Primitive, int]:
        return self._planner.make(build, size), self._planner.count

    def turned(self, head: _Head) -> Value:
        """Keys as columns, side by side, or packed for the product."""
        rows, size = head.rows, head.size
        if _KEYS in self._packed:
            return self._repacked(_KEYS, head, Desc.strided((rows, size, 1, 1), (head.stride, 1, 1, 1)))
        found = self._planner.new(Desc.plain((size, rows)))
        even = rows - rows % _TILE
        for first, count in ((0, even), (even, rows - even)):
            if count:
                source = Desc.strided((size, count), (1, head.stride))
                target = self._planner.piece(found, first, Desc.strided((size, count), (rows, 1)))
                copy_into(self._planner, head.part(self._planner, first, source), target)
        return found

    def mixed(self, head: _Head) -> Value:
        """Values as rows, packed for the product where it wants them so."""
        if _VALUES in self._packed:
            return self._repacked(_VALUES, head, Desc.strided((head.size, head.rows, 1, 1), (1, head.stride, 1, 1)))
        return self.gathered(head)

    def _repacked(self, factor: int, head: _Head, source: Desc) -> Value:
        found = self._planner.new(self._packed[factor])
        copy_into(self._planner, head.part(self._planner, 0, source), found)
        return found

    def gathered(self, head: _Head) -> Value:
        """Rows one behind the other: for rows further apart oneDNN takes other, slower code."""
        found = self._planner.new(Desc.plain((head.rows, head.size)))
        source = Desc.strided((head.rows, head.size), (head.stride, 1))
        copy_into(self._planner, head.part(self._planner, 0, source), found)
        return found

    def attend(
        self,
        factors: tuple[Value, Value, Value],
        masks: Sequence[HeadMask],
        block: int,
        into: tuple[Value, Value, int],
    ) -> None:
        """All rows of a head: the blocks of one size as one step of the plan, and what is left."""
        count, left = divmod(factors[0].dims[0], block)
        for first, rows, again in ((0, block, count), (count * block, left, 1)):
            if rows:
                with self._planner.repeating(again) as moves:
                    self._emit(factors, masks, (first, rows), into, moves)

    def _emit(
        self,
        factors: tuple[Value, Value, Value],
        masks: Sequence[HeadMask],
        place: tuple[int, int],
        into: tuple[Value, Value, int],
        moves: dict[Buffer, int],
    ) -> None:
        """Some rows, which move from one block to the next with what is made of them."""
        planner = self._planner
        (query, keys, values), (first, rows), (found, sums, begin) = factors, place, into
        block = self._blocks[rows]

        def moving(value: Value, start: int) -> Value:
            width = value.dims[1]
            return planner.moving(moves, value, start * width, Desc.plain((rows, width)), rows * width)

        def emit(primitive: tuple[Primitive, int], given: dict[int, Value], in_place: int | None = None) -> None:
            done, planner.count = primitive
            planner.emit(done, given, in_place=in_place)

        def changed(primitive: tuple[Primitive, int], scores: Value, other: Value) -> Value:
            found = planner.new(block.scores)
            emit(primitive, {Argument.SRC: scores, Argument.SRC_1: other, Argument.DST: found}, Argument.SRC)
            return found

        def hiding(mask: HeadMask) -> Value:
            if mask.by_row:
                return moving(mask.value, mask.start + first)
            width = mask.value.dims[1]
            return planner.piece(mask.value, mask.start * width, Desc.plain((1, width)))

        source, target, total = moving(query, first), moving(found, begin + first), moving(sums, begin + first)
        scores, largest = planner.new(block.scores), planner.new(block.largest)
        emit(block.product, {Argument.SRC: source, Argument.WEIGHTS: keys, Argument.DST: scores})
        steps, added = list(zip(block.hiding, masks, strict=True)), len(self._masks.added)
        for primitive, mask in steps[:added]:
            scores = changed(primitive, scores, hiding(mask))
        emit(block.peak, {Argument.SRC: scores, Argument.DST: largest})
        powers = changed(block.exponential, scores, largest)
        for primitive, mask in steps[added:]:
            powers = changed(primitive, powers, hiding(mask))
        emit(block.total, {Argument.SRC: powers, Argument.DST: total})
        emit(block.mixture, {Argument.SRC: powers, Argument.WEIGHTS: values, Argument.DST: target})
