"""Base of the lowering of an operation: layouts and steps, and results with the functions applied to them.

One planner makes one plan: it walks the operations once for concrete shapes. What follows an operation goes into its
primitive as far as that takes it; the rest are primitives of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, INTEGERS, Argument, Binary, Element, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.hazards import may_clamp
from ort_py_onednn.binding.instructions import AVX512
from ort_py_onednn.binding.own_code import OwnCode
from ort_py_onednn.binding.primitive import Accumulate, Function, Operand, PostOp, Primitive, Unimplemented
from ort_py_onednn.binding.row_gates import RowGate, has_row_gates
from ort_py_onednn.binding.vector_functions import VectorFunction, has_code
from ort_py_onednn.graph.functions import before_bytes, linear
from ort_py_onednn.graph.operation import Combine, Post
from ort_py_onednn.lowering.layouts import LayoutPlanner
from ort_py_onednn.lowering.values import Value, broadcast_dims, folded

__all__ = ["PER_CHANNEL", "Planner", "Value", "broadcast_dims"]

PER_CHANNEL = 1 << 24
"""Bit of an algorithm of `Combine`: the operand is a vector of channels, dimension 1 of the result."""

_FEW_GATES = 1 << 15
"""Numbers up to which gates are own code: the time of one call less counts, and one thread does them."""

Made = TypeVar("Made", bound="Primitive | OwnCode")


class Planner(LayoutPlanner):
    """Makes a plan; see `LayoutPlanner` for its arguments.

    Attributes:
        looks: Whether the processor's flags are looked at after a run: no code may lose NaN without raising one.
        counts: Whether runs say how many keys of a past there are.
    """

    looks = True
    counts = False

    def with_posts(
        self,
        build: Callable[[Sequence[PostOp]], Made],
        values: Callable[[Made], Mapping[int, Value]],
        result: Desc,
        shape: Sequence[int],
        posts: Sequence[Post],
        work: float | None = None,
        in_place: int | None = None,
    ) -> Value:
        """Emit a primitive with as many of the post-ops as it takes, then the others on their own.

        Raises:
            Unimplemented: It cannot be had, or becomes an integer and cannot be had with all of `posts`.

        Args:
            build: Makes the primitive for post-ops.
            values: Its arguments but destination and operands of post-ops, reordered as it wants them.
            result: Dimensions and type of the result, of any layout.
            shape: Shape of the result.
            posts: What is done with the result.
            work: Multiply-adds; None for work of a few instructions an element.
            in_place: The argument whose place the result may take; see `emit`.
        """

        def make(chain: Sequence[PostOp]) -> Made:
            if work is None:
                return self.make(lambda: build(chain), result)
            return self.make_heavy(lambda: build(chain), work)

        count = len(posts)
        whole = result.dtype in INTEGERS  # the remaining steps could not use the rounded values
        for place, post in enumerate(posts):
            apart = isinstance(post, Combine) and not self._only_broadcasts(post, result.dims, shape)
            if apart or self._is_own(post, result.dtype):
                count = place
                break
        plain_made: Made | None = None
        while True:
            if whole and count < len(posts):
                raise Unimplemented(f"{len(posts)} functions of a result that becomes an integer")
            chosen = posts[:count]
            for summing in (True, False):
                residual = self._residual(chosen, result) if summing else None
                if summing and residual is None:
                    continue
                chain = [self._post(post, result.dims, index == residual) for index, post in enumerate(chosen)]
                if whole and residual is not None:
                    chain = _scaled_sum(chain, residual)
                try:
                    primitive = make(chain)
                except Unimplemented:
                    if not chosen:
                        raise
                    continue
                if not whole and self._hides(primitive, chosen):
                    continue
                if chosen and primitive.is_reference:
                    plain_made = plain_made or make(())
                    if not plain_made.is_reference:
                        continue
                    make(chain)  # the thread count again
                found = self._emit_posts(primitive, values, shape, chosen, residual, in_place)
                return self.apply(found, posts[count:])
            count -= 1

    def _emit_posts(
        self,
        primitive: Made,
        values: Callable[[Made], Mapping[int, Value]],
        shape: Sequence[int],
        posts: Sequence[Post],
        residual: int | None,
        in_place: int | None,
    ) -> Value:
        count = self.count
        given = dict(values(primitive))
        desc = primitive.arguments[Argument.DST]
        target = self.new(desc, shape)
        for index, post in enumerate(posts):
            if not isinstance(post, Combine):
                continue
            operand = self._operand(post, len(desc.dims))
            if index == residual:
                self.copy(self.in_layout(operand, desc), target, elidable=True)
            else:
                code = Argument.post_op(index)
                given[code] = self.in_layout(operand, primitive.arguments[code])
        given[Argument.DST] = target
        self.count = count
        summed = residual is not None
        self.emit(primitive, given, in_place=None if summed else in_place, accumulates=summed)
        return target

    def apply(self, value: Value, posts: Sequence[Post]) -> Value:
        """Functions and operands applied to a value, in its type; each is a primitive that takes what it can of the
        rest."""
        posts = list(posts)
        while posts:
            post = posts.pop(0)
            if isinstance(post, Function):
                if value.desc.key is None or not value.desc.is_dense:
                    value = self.plain(value)
                if self._by_sigmoid(post, value.dtype):
                    value = self._tanh_gelu(value)
                    continue
                own = self._own(post, value)
                if own is not None:
                    value = own
                    continue
                gated = self._gated(post, value, posts)
                if gated is not None:
                    value, posts = gated, posts[1:]
                    continue
                primitive = self._function(post, value.desc)
                if self.looks and primitive.hazards.silent and not value.desc.is_plain:
                    # Of channels that fill blocks with zeroes, functions that move 0 have no other code.
                    value = self.plain(value)
                    primitive = self._function(post, value.desc)
                desc = value.desc
                found = self.new(desc, value.shape)
                self.emit(primitive, {Argument.SRC: value, Argument.DST: found}, in_place=Argument.SRC)
                value = found
            else:
                operand = self._operand(post, max(len(value.dims), len(value.shape)))
                return self.combine(post.algorithm & ~PER_CHANNEL, value, operand, posts)
        return value

    def _function(self, function: Function, desc: Desc) -> Primitive:
        return self.make(lambda: primitives.eltwise(function, desc, desc), desc)

    def _is_own(self, post: Post, dtype: Element) -> bool:
        """Return whether a function is best a step of its own: oneDNN has slow code for it here, or none."""
        if not isinstance(post, Function):
            return False
        own = dtype == F32 and (self._by_sigmoid(post, dtype) or has_code(self.library, post.algorithm))
        return own or post.algorithm == Eltwise.ERF

    def _own(self, post: Function, value: Value) -> Value | None:
        """The result of a function in code of our own; None where there is none."""
        if value.dtype != F32 or not has_code(self.library, post.algorithm):
            return None
        if value.desc.is_blocked or value.desc.has_offset:
            value = self.plain(value)
        desc = value.desc
        own = self.make(lambda: VectorFunction(self.library, post.algorithm, desc), desc)
        found = self.new(desc, value.shape)
        self.emit(own, {Argument.SRC: value, Argument.DST: found}, in_place=Argument.SRC)
        return found

    def _gated(self, post: Function, value: Value, posts: Sequence[Post]) -> Value | None:
        """The product of ``x · sigmoid(alpha · x)`` and the first of the posts in code of our own, for a few numbers;
        None where that is not what they are, or there is no code."""
        following = posts[0] if posts else None
        if post.algorithm != Eltwise.SWISH or not isinstance(following, Combine) or following.algorithm != Binary.MUL:
            return None
        other = self._operand(following, len(value.dims))
        alike = other.dims == value.dims and value.dtype == other.dtype == F32
        if not alike or math.prod(value.dims) > _FEW_GATES or not has_row_gates(self.library):
            return None
        flat = (math.prod(value.dims[:-1]), value.dims[-1])
        left, right = (self.reshaped(self.plain(one), flat) for one in (value, other))
        self.buffer_of(right)
        own = self.make(lambda: RowGate(self.library, left.desc, post.alpha), left.desc)
        found = self.new(left.desc)
        self.emit(own, {Argument.SRC: left, Argument.SRC_1: right, Argument.DST: found}, in_place=Argument.SRC)
        return self.view(found, Desc.plain(value.dims), value.shape)

    def _by_sigmoid(self, post: Post, dtype: Element) -> bool:
        """Return whether a function is the Gelu by tanh, for a CPU on which oneDNN 3.2 takes 3 ns for each tanh."""
        gelu = isinstance(post, Function) and post.algorithm == Eltwise.GELU_TANH
        return gelu and dtype == F32 and not self.library.isa & AVX512

    def _tanh_gelu(self, value: Value) -> Value:
        """``x · (1 + tanh(u)) / 2`` as ``x · sigmoid(2 u)``, with ``u = √(2/π) · (x + 0.044715 x³)``: in one pass over
        ``x · x``, and in a third of the time."""
        desc, slope = value.desc, 2 * math.sqrt(2 / math.pi)
        times = Operand(Binary.MUL, desc)
        chain: list[PostOp] = [linear(0.044715 * slope, slope), times, Function(Eltwise.LOGISTIC), times]
        primitive = self.make(lambda: primitives.binary(Binary.MUL, desc, desc, desc, chain), desc)
        found = self.new(desc, value.shape)
        codes = (Argument.SRC, Argument.SRC_1, Argument.post_op(1), Argument.post_op(3))
        self.emit(primitive, {Argument.DST: found} | dict.fromkeys(codes, value))
        return found

    def combine(self, algorithm: int, first: Value, second: Value, posts: Sequence[Post] = ()) -> Value:
        """A function of two values that broadcast against each other."""
        rank = max(len(first.dims), len(second.dims))
        shape = np.broadcast_shapes(first.shape, second.shape)
        dims = broadcast_dims(first.dims, second.dims)
        dtype = self.arithmetic_type(first, second)
        left, right = self.ranked(first, rank), self.ranked(second, rank)
        if left.dims != dims and right.dims == dims and algorithm in {Binary.ADD, Binary.MUL, Binary.MAX, Binary.MIN}:
            left, right = right, left
        if left.dims != dims:
            from ort_py_onednn.lowering.parts import spread  # it is written with planners

            left = self.plain(left)  # only the second operand may broadcast
            left = spread(self, self.view(left, Desc.plain(left.dims, left.dtype)), dims)
        blocked = right.weight is None and not right.desc.is_plain and right.desc.is_dense
        if left.weight is not None and right.dims == dims and blocked:
            left = self.in_layout(left, right.desc)
        # The result has the first operand's type; the second may have any.
        left = self.converted(left, dtype)
        if left.desc.key is None or not left.desc.is_dense:
            left = self.plain(left)
        if right.dims == dims:
            right = self.in_layout(right, left.desc)
        elif right.weight is None and not right.desc.is_plain and not left.desc.is_blocked:
            right = self.plain(right)
        desc = left.desc

        def build(chain: Sequence[PostOp]) -> Primitive:
            return primitives.binary(algorithm, desc, right.desc, desc, chain)

        if self._is_slow(build, desc):
            left, right = self.plain(left), self.plain(right)
            desc = left.desc
            narrow = folded(left.dims, right.dims)
            if narrow is not None and self._is_slow(build, desc):
                first, second = self.reshaped(left, narrow[0]), self.reshaped(right, narrow[1])
                found = self.combine(algorithm, first, second)
                return self.apply(self.reshaped(found, shape), posts)
        taken = min(_without_vectors(posts, dims), self._without_narrow(posts, desc))
        found = self.with_posts(
            build,
            lambda _: {Argument.SRC: left, Argument.SRC_1: right},
            desc,
            shape,
            posts[:taken],
            in_place=Argument.SRC,
        )
        return self.apply(found, posts[taken:])

    def _without_narrow(self, posts: Sequence[Post], desc: Desc) -> int:
        """Number of the posts that a function of two values takes whose axes lie in a given order.

        oneDNN 3.2's code for such a function finds the elements of operands that broadcast as if channels lay where
        they usually do: behind the batch, or last. In any other order it reads others, outside of the operand too.
        """
        if desc.is_plain or desc.is_blocked or desc.same(Desc.channels_last(desc.dims, desc.dtype)):
            return len(posts)
        narrow = (
            isinstance(post, Combine)
            and (post.algorithm & PER_CHANNEL or 1 < math.prod(self.value(post.value).dims) < math.prod(desc.dims))
            for post in posts
        )
        return next((place for place, one in enumerate(narrow) if one), len(posts))

    def _hides(self, primitive: Primitive | OwnCode, posts: Sequence[Post]) -> bool:
        """Return whether a post-op may lose NaN and the processor's flags would not tell: in code that raises none, or
        that raises them idly.
        """
        hazards = primitive.hazards
        if not self.looks or not (hazards.silent or hazards.idle):
            return False
        return any(may_clamp(post.algorithm & ~PER_CHANNEL) for post in posts)

    def probe(self, value: Value) -> None:
        """Append a step that raises the Invalid flag where an element is NaN, ahead of code that loses it silently.

        Raises:
            Unimplemented: This value does not support such a step.
        """
        value = self.plain(value)
        desc = value.desc
        primitive = self.make(lambda: primitives.eltwise(Function(Eltwise.RELU), desc, desc), desc)
        if primitive.hazards.silent:
            raise Unimplemented("a step that finds what is not a number")
        self.emit(primitive, {Argument.SRC: value, Argument.DST: self.new(desc, value.shape)})

    def _is_slow(self, build: Callable[[Sequence[PostOp]], Primitive], size: Desc) -> bool:
        """Return whether a primitive can be had as reference code only, if at all."""
        try:
            return self.make(lambda: build(()), size).is_reference
        except Unimplemented:
            return True

    def _operand(self, post: Combine, rank: int) -> Value:
        value = self.value(post.value)
        if post.algorithm & PER_CHANNEL:
            return self.reshaped(value, (1, value.dims[0], *(1,) * (rank - 2)))
        return self.ranked(value, rank)

    def adds_axes(self, post: Combine, shape: Sequence[int]) -> bool:
        """Return whether the operand of a post has more axes than a result of this shape, so that it would get them."""
        return not post.algorithm & PER_CHANNEL and len(self.value(post.value).shape) > len(shape)

    def _only_broadcasts(self, post: Combine, dims: tuple[int, ...], shape: Sequence[int]) -> bool:
        operand = self.value(post.value).dims
        if post.algorithm & PER_CHANNEL:
            return True
        # A scalar has one dimension here, so that the shapes tell more than the dimensions.
        if self.adds_axes(post, shape):
            return False
        return len(operand) <= len(dims) and broadcast_dims(operand, dims) == dims

    def _residual(self, posts: Sequence[Post], result: Desc) -> int | None:
        """The post that is best done as a sum into the destination: a tensor of the result's size and type whose place
        the destination can take, because nothing else seems to read it.
        """
        others = [self.value(post.value).buffer for post in posts if isinstance(post, Combine)]
        for index, post in enumerate(posts):
            if isinstance(post, Combine) and post.algorithm == Binary.ADD:
                value = self.value(post.value)
                alone = value.buffer not in self.operands and others.count(value.buffer) == 1
                fits = (value.dims, value.dtype) == (result.dims, result.dtype)
                if fits and alone and self.is_last(value):
                    return index
        return None

    def _post(self, post: Post, dims: tuple[int, ...], summed: bool) -> PostOp:
        if isinstance(post, Function):
            return post
        if summed:
            return Accumulate()
        algorithm = post.algorithm & ~PER_CHANNEL
        if post.algorithm & PER_CHANNEL:
            vector = self.value(post.value).dtype
            return Operand(algorithm, Desc.plain((1, dims[1], *(1,) * (len(dims) - 2)), vector))
        value = self.value(post.value)
        padded = (1,) * (len(dims) - len(value.dims)) + value.dims
        if padded == dims:
            return Operand(algorithm, Desc.any(dims, value.dtype))
        return Operand(algorithm, Desc.plain(padded, value.dtype))


def _without_vectors(posts: Sequence[Post], dims: tuple[int, ...]) -> int:
    """Number of the posts that a function of two values takes.

    Where all axes behind the channels have one element, oneDNN 3.2's code for such a function takes the first channel's
    number of an operand for all channels. So operands do not follow it there.
    """
    if len(dims) < 3 or math.prod(dims[2:]) != 1:
        return len(posts)
    return next((place for place, post in enumerate(posts) if isinstance(post, Combine)), len(posts))


def _scaled_sum(chain: list[PostOp], place: int) -> list[PostOp]:
    """A chain that scales what the destination holds as it adds it, in place of a linear function behind the sum: where
    one in front takes the factor too, and no operand behind, which goes by its place in the chain."""
    before, after = chain[max(0, place - 1) : place], chain[place + 1 : place + 2]
    neighbours = [post for post in (*before, *after) if isinstance(post, Function)]
    if [post.algorithm for post in neighbours] != [Eltwise.LINEAR] * 2:
        return chain
    if any(isinstance(post, Operand) for post in chain[place:]):
        return chain
    first, second = neighbours
    whole = before_bytes(first, second)
    return chain if whole is None else [*chain[: place - 1], whole, Accumulate(second.alpha), *chain[place + 2 :]]
