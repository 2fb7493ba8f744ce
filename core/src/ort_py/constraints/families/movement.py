"""Operators that move, repeat or rename elements, and compute nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ort_py.constraints.program import CONTENT_LIMIT
from ort_py.constraints.scope import (
    Constraint,
    Dims,
    NodeScope,
    Outputs,
    Tensor,
    Unchecked,
    Violation,
    clamped,
    content_of,
    replaced,
)
from ort_py.constraints.sizes import (
    UNKNOWN,
    Amount,
    Size,
    all_of,
    any_of,
    at_least,
    choose,
    divide,
    equal,
    largest,
    less,
    product,
    remainder,
)

_SIZE_LIMIT = 2**62
"""Numbers that are not sizes: beyond them the arithmetic of 64 bits would wrap around."""


def _reshape(n: NodeScope) -> Outputs:
    source = n.tensor(0)
    shape = n.shape(0)
    wanted: Dims = n.ints("shape") if n.since_version < 5 else n.content(1)
    keeps_zero = bool(n.integer("allowzero"))
    free: list[int] = []
    sizes: list[Amount] = []
    for place, size in enumerate(wanted):
        if isinstance(size, int):
            if size == -1:
                free.append(place)
            elif size < -1:
                raise Violation(f"the shape {tuple(wanted)} has a size below -1")
            elif size == 0 and not keeps_zero:
                if place >= len(shape):
                    raise Violation(f"the shape {tuple(wanted)} copies axis {place} of {len(shape)}")
                size = shape[place]  # noqa: PLW2901 - 0 stands for the size at the same place
        elif isinstance(size, Size) and not size.natural:
            # It may be -1 or 0, which stand for other numbers.
            return _reshape_of_computed(n, shape, wanted, keeps_zero)
        elif not keeps_zero and isinstance(size, Size):
            copied = shape[place] if place < len(shape) else UNKNOWN
            size = size if copied is size else choose(equal(size, 0), copied, size)  # noqa: PLW2901 - as above
        sizes.append(size)
    if len(free) > 1:
        raise Violation(f"the shape {tuple(wanted)} leaves more than one size undetermined")
    whole = product(shape)
    if free:
        rest = product([size for place, size in enumerate(sizes) if place != free[0]])
        # Parts of no elements leave open how many there are, even of a tensor without elements.
        n.require(
            all_of(less(0, rest), equal(remainder(whole, rest), 0)),
            "{} elements cannot be divided into parts of {}", whole, rest,
        )  # fmt: skip
        sizes[free[0]] = divide(whole, rest)
    else:
        n.require(equal(whole, product(sizes)), "{} elements cannot be reshaped to {}", whole, product(sizes))
    return [Tensor(tuple(sizes), content=content_of(source))]


def _reshape_of_computed(n: NodeScope, shape: Dims, wanted: Dims, keeps_zero: bool) -> Outputs:
    """A target whose numbers are only known in the run: each may be -1 or 0."""
    if any(not isinstance(size, int | Size) for size in wanted):
        raise Unchecked("the shape depends on the data of the run")
    open_sizes: Amount = 0
    rest: Amount = 1
    sizes: list[Amount] = []
    for place, size in enumerate(wanted):
        n.require(at_least(size, -1), "the shape has a size of {}", size)
        is_open = equal(size, -1)
        open_sizes = open_sizes + choose(is_open, 1, 0)
        real = size
        if not keeps_zero:
            if place < len(shape):
                real = choose(equal(size, 0), shape[place], size)
            else:
                n.require(any_of(less(size, 0), less(0, size)), "the shape copies an axis that does not exist")
        rest = choose(is_open, 1, real) * rest
        sizes.append(real)
    n.require(at_least(1, open_sizes), "the shape leaves {} sizes undetermined", open_sizes)
    whole = product(shape)
    is_open = equal(open_sizes, 1)
    fits = choose(is_open, choose(equal(rest, 0), 0, equal(remainder(whole, rest), 0)), equal(whole, rest))
    n.require(_condition(fits), "{} elements cannot be reshaped to {}", whole, rest)
    missing = divide(whole, rest)
    return [tuple(largest(choose(equal(size, -1), missing, size), 0) for size in sizes)]


def _condition(amount: Amount) -> bool | Size:
    if not isinstance(amount, bool | int | Size):
        raise Unchecked("the sizes depend on the data of the run")
    return bool(amount) if isinstance(amount, int) else amount


def _flatten(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    axis = n.axis(n.integer("axis", 1), len(shape), inclusive=True)
    return [(product(shape[:axis]), product(shape[axis:]))]


def _given_axes(n: NodeScope, place: int = 1) -> Dims | None:
    """Axes from the attribute or from an input; None if neither gives any. An empty attribute gives none."""
    if "axes" in n.attributes:
        return n.ints("axes") or None
    return n.content(place) if n.has(place) else None


def _squeeze(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    given = _given_axes(n)
    if given is None:
        if any(isinstance(size, Size) for size in shape):
            # Which axes go depends on the run; the rank of what is left is not known.
            return [Tensor(None)]
        gone = tuple(place for place, size in enumerate(shape) if size == 1)
    else:
        gone = n.axes(given, len(shape))
        for axis in gone:
            n.require(equal(shape[axis], 1), "axis {1} has {0} elements and cannot be squeezed", shape[axis], axis)
    left = tuple(size for place, size in enumerate(shape) if place not in gone)
    return [Tensor(left, content=content_of(n.tensor(0)) if len(left) <= 1 else None)]


def _unsqueeze(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    given = _given_axes(n) or ()
    rank = len(shape) + len(given)
    new = set(n.axes(given, rank))
    old = iter(shape)
    made = tuple(1 if place in new else next(old) for place in range(rank))
    return [Tensor(made, content=content_of(n.tensor(0)) if len(made) <= 1 else None)]


def _transpose(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    order = n.ints("perm") or tuple(reversed(range(len(shape))))
    if sorted(order) != list(range(len(shape))):
        raise Violation(f"perm {order} is not an order of {len(shape)} axes")
    return [Tensor(tuple(shape[axis] for axis in order), content=content_of(n.tensor(0)) if len(shape) < 2 else None)]


def _concat(n: NodeScope) -> Outputs:
    shapes = [n.shape(place) for place in range(len(n.inputs))]
    if not shapes:
        raise Violation("there is no input")
    rank = len(shapes[0])
    if any(len(shape) != rank for shape in shapes):
        raise Violation(f"the inputs have {', '.join(str(len(shape)) for shape in shapes)} axes")
    axis = n.axis(n.integer("axis", 1), rank)
    whole: Amount = 0
    for shape in shapes:
        whole = shape[axis] + whole
        for place, (size, wanted) in enumerate(zip(shape, shapes[0], strict=True)):
            if place != axis:
                n.require(equal(size, wanted), "sizes {} and {} along axis {} cannot be joined", size, wanted, place)
    content: list[Amount] | None = [] if rank == 1 else None
    for place in range(len(shapes)):
        part = content_of(n.tensor(place)) if content is not None else None
        # Longer lists say no shapes, and a chain of nodes that join a value with itself would double them each time.
        short = part is not None and content is not None and len(content) + len(part) <= CONTENT_LIMIT
        content = [*content, *part] if short else None  # type: ignore[misc]  # neither is None
    return [Tensor(replaced(shapes[0], axis, whole), content=None if content is None else tuple(content))]


def _split(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    axis = n.axis(n.integer("axis"), len(shape))
    size, count = shape[axis], n.outputs
    given: Dims | None = n.ints("split") if "split" in n.attributes else n.content(1) if n.has(1) else None
    sizes: list[Amount]
    if given is not None:
        if len(given) != count:
            raise Violation(f"{len(given)} sizes are given for {count} outputs")
        total: Amount = 0
        for part in given:
            n.require(at_least(part, 0), "a part has the size {}", part)
            total = total + part
        n.require(equal(total, size), "the parts have {} elements together, the axis {}", total, size)
        sizes = list(given)
    elif n.since_version >= 18 and "num_outputs" in n.attributes:
        if n.integer("num_outputs") != count:
            raise Violation(f"num_outputs is {n.integer('num_outputs')}, but there are {count} outputs")
        each = divide(size + (count - 1), count)
        sizes = [clamped(size - each * place, 0, each) for place in range(count)]
    else:
        n.require(equal(remainder(size, count), 0), "{} elements cannot be split into {} equal parts", size, count)
        sizes = [divide(size, count)] * count
    content, start = content_of(n.tensor(0)) if len(shape) == 1 else None, 0
    found: list[Tensor] = []
    for part in sizes:
        piece = None
        if content is not None and isinstance(part, int):
            piece, start = content[start : start + part], start + part
        found.append(Tensor(replaced(shape, axis, part), content=piece))
    return found


def _slice(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    if n.since_version < 10:
        starts: Dims = n.ints("starts")
        ends: Dims = n.ints("ends")
        named: Dims = n.ints("axes", range(len(starts)))
        steps: Dims = (1,) * len(starts)
    else:
        starts, ends = _bounds(n, 1), _bounds(n, 2)
        named = n.content(3) if n.has(3) else tuple(range(len(starts)))
        steps = n.content(4) if n.has(4) else (1,) * len(starts)
    if not len(starts) == len(ends) == len(named) == len(steps):
        raise Violation(f"{len(starts)} starts, {len(ends)} ends, {len(named)} axes and {len(steps)} steps are given")
    sizes = list(shape)
    axes = n.axes(named, len(shape))
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        n.require(any_of(less(step, 0), less(0, step)), "a step is {}", step)
        sizes[axis] = _sliced(shape[axis], start, end, step)
    content = content_of(n.tensor(0)) if len(shape) == 1 else None
    if content is not None:
        numbers = [(one[0] if one else None) for one in (starts, ends, steps)]
        known = all(number is None or isinstance(number, int) for number in numbers)
        content = content[slice(*numbers)] if known and axes else (content if not axes else None)  # type: ignore[arg-type]  # all are int or None
    return [Tensor(tuple(sizes), content=content)]


def _bounds(n: NodeScope, place: int) -> Dims:
    """Starts or ends. If they are not known, their number may still be."""
    found = n.optional_content(place)
    if found is not None:
        return found
    shape = n.shape(place)
    if len(shape) == 1 and isinstance(shape[0], int):
        return (UNKNOWN,) * min(shape[0], 64)
    return n.content(place)


def _sliced(size: Amount, start: Amount, end: Amount, step: Amount) -> Amount:
    """Number of elements in a range of an axis."""
    if not isinstance(step, int) or step == 0:
        return UNKNOWN
    first = choose(less(start, 0), start + size, start)
    last = choose(less(end, 0), end + size, end)
    if step > 0:
        first, last = clamped(first, 0, size), clamped(last, 0, size)
        count = divide(last - first + (step - 1), step)
    else:
        first = clamped(first, 0, size - 1)
        last = clamped(last, -1, size - 1)
        count = choose(equal(size, 0), 0, divide(first - last - step - 1, -step))
    return largest(count, 0)


def _expand(n: NodeScope) -> Outputs:
    wanted = n.content(1)
    for size in wanted:
        n.require(at_least(size, 0), "the shape has a size of {}", size)
    shape = n.broadcast(n.shape(0), wanted)
    source = content_of(n.tensor(0))
    content = None
    if source is not None and len(source) == 1 and len(shape) == 1 and isinstance(shape[0], int) and shape[0] <= 64:
        content = source * shape[0]
    return [Tensor(shape, content=content)]


def _tile(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    if n.since_version < 6:
        raise Unchecked("version 1 repeats an axis that is an input")
    repeats = n.content(1)
    if len(repeats) != len(shape):
        raise Violation(f"there are {len(repeats)} repeats for {len(shape)} axes")
    for count in repeats:
        n.require(at_least(count, 0), "an axis is repeated {} times", count)
        n.require(at_least(_SIZE_LIMIT, count), "an axis is repeated {} times", count)
    return [tuple(size * count for size, count in zip(shape, repeats, strict=True))]


def _block(n: NodeScope, *, to_space: bool) -> Outputs:
    batch, channels, rows, columns = n.require_rank(0, 4, 4)
    block = n.integer("blocksize")
    if not 0 < block < _SIZE_LIMIT:
        raise Violation(f"blocksize is {block}")
    if to_space:
        n.require(
            equal(remainder(channels, block * block), 0), "{} channels cannot be divided by {}", channels, block * block
        )
        return [(batch, divide(channels, block * block), rows * block, columns * block)]
    for size in (rows, columns):
        n.require(equal(remainder(size, block), 0), "{} pixels cannot be divided by {}", size, block)
    return [(batch, channels * (block * block), divide(rows, block), divide(columns, block))]


def _depth_to_space(n: NodeScope) -> Outputs:
    return _block(n, to_space=True)


def _space_to_depth(n: NodeScope) -> Outputs:
    return _block(n, to_space=False)


def _pad(n: NodeScope) -> Outputs:
    shape = n.shape(0)
    pads: Dims = n.ints("pads") or n.ints("paddings") if n.since_version < 11 else n.content(1)
    named: Sequence[Amount] = n.content(3) if n.has(3) else range(len(shape))
    axes = n.axes(named, len(shape))
    if len(pads) != 2 * len(axes):
        raise Violation(f"there are {len(pads)} pads for {len(axes)} axes; two for each are needed")
    mode = n.text("mode", "constant")
    if mode not in {"constant", "reflect", "edge", "wrap"}:
        raise Violation(f"the mode '{mode}' is not known")
    sizes = list(shape)
    for place, axis in enumerate(axes):
        begin, end = pads[place], pads[place + len(axes)]
        for pad in (begin, end):
            n.require(all_of(less(-_SIZE_LIMIT, pad), less(pad, _SIZE_LIMIT)), "an axis is padded by {}", pad)
            if mode == "constant":
                # A crop of one side may not reach beyond the other one.
                n.require(at_least(shape[axis] + pad, 0), "{1} of {0} elements are cropped", shape[axis], pad)
        sizes[axis] = shape[axis] + begin + end
        n.require(at_least(sizes[axis], 0), "{} elements are left of an axis", sizes[axis])
        if mode != "constant":
            padded = any_of(less(0, begin), less(0, end))
            n.require(
                any_of(less(0, shape[axis]), negated_condition(padded)),
                "an axis of {} elements is repeated",
                shape[axis],
            )
    if n.has(2):
        value = n.tensor(2).shape
        if value:
            n.require(at_least(1, product(value)), "the value has {} elements", product(value))
    return [tuple(sizes)]


def negated_condition(condition: bool | Amount) -> bool | Size:
    if isinstance(condition, bool):
        return not condition
    found = equal(condition, 0)
    return found if isinstance(found, bool | Size) else False


TABLE: Mapping[tuple[str, str], Constraint] = {
    ("", "Concat"): _concat,
    ("", "DepthToSpace"): _depth_to_space,
    ("", "Expand"): _expand,
    ("", "Flatten"): _flatten,
    ("", "Pad"): _pad,
    ("", "Reshape"): _reshape,
    ("", "Slice"): _slice,
    ("", "SpaceToDepth"): _space_to_depth,
    ("", "Split"): _split,
    ("", "Squeeze"): _squeeze,
    ("", "Tile"): _tile,
    ("", "Transpose"): _transpose,
    ("", "Unsqueeze"): _unsqueeze,
}
