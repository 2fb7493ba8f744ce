"""Attention, and the rotation of its heads."""

from __future__ import annotations

from collections.abc import Mapping

from ort_py.constraints.scope import Constraint, Dims, NodeScope, Outputs, Unchecked, Violation
from ort_py.constraints.sizes import (
    Amount,
    any_of,
    at_least,
    choose,
    divide,
    equal,
    largest,
    product,
    remainder,
    smallest,
)


def _heads(n: NodeScope, shape: Dims, count: int, what: str) -> Dims:
    """``(batch, heads, rows, size)`` of an input of three or four axes."""
    if len(shape) == 4:
        return shape
    if count < 1:
        raise Violation(f"{what} has three axes, and the number of its heads is {count}")
    n.require(
        equal(remainder(shape[2], count), 0), what + " of {} columns cannot be divided into {} heads", shape[2], count
    )
    return (shape[0], count, shape[1], divide(shape[2], count))


def _attention(n: NodeScope) -> Outputs:
    shapes = [n.require_rank(place, 3, 4) for place in range(3)]
    if len({len(shape) for shape in shapes}) > 1:
        raise Violation("queries, keys and values do not have the same number of axes")
    counts = n.integer("q_num_heads"), n.integer("kv_num_heads"), n.integer("kv_num_heads")
    query, key, value = (
        _heads(n, shape, count, what)
        for shape, count, what in zip(shapes, counts, ("the query", "the key", "the value"), strict=True)
    )
    if n.has(6):
        raise Unchecked("the number of keys depends on the run")
    for size, wanted, what in (
        (key[0], query[0], "batches"),
        (value[0], query[0], "batches"),
        (key[3], query[3], "columns of a head"),
        (value[2], key[2], "rows"),
        (value[1], key[1], "heads"),
    ):
        n.require(equal(size, wanted), "{} and {} " + what + " do not fit together", size, wanted)
    n.require(equal(remainder(query[1], key[1]), 0), "{} heads of queries for {} of keys", query[1], key[1])
    if n.has(4) or n.has(5):
        key, value = _behind_past(n, key, value, 4)
    if n.has(3):
        n.spreads_to(3, (query[0], query[1], query[2], key[2]), "the mask")
    n.spend(product((query[0], query[1], query[2], key[2], query[3])))
    n.spend(product((query[0], query[1], query[2], key[2], value[3])))
    whole = (query[0], query[1], query[2], value[3])
    joined = (query[0], query[2], query[1] * value[3])
    present = () if n.outputs == 1 else (key, value)
    return [whole if len(shapes[0]) == 4 else joined, *present, *(None,) * (n.outputs - 3)][: n.outputs]


def _several(n: NodeScope) -> Outputs:
    """com.microsoft.MultiHeadAttention of separate queries, keys and values, which may stand behind those of a past."""
    if n.has(8) or n.has(9):
        raise Unchecked("the past is a buffer, or its rows come from beams")
    query = n.shape(0)
    if len(query) != 3 or not n.has(1) or not n.has(2):
        raise Unchecked("queries, keys and values are packed")
    heads = n.integer("num_heads")
    key, value = (_heads(n, n.require_rank(place, 3, 4), heads, f"input {place}") for place in (1, 2))
    split = _heads(n, query, heads, "the query")
    for size, wanted, what in (
        (key[0], split[0], "batches"),
        (value[0], split[0], "batches"),
        (key[1], split[1], "heads"),
        (value[1], split[1], "heads"),
        (key[3], split[3], "columns of a head"),
        (value[2], key[2], "rows"),
    ):
        n.require(equal(size, wanted), "{} and {} " + what + " do not fit together", size, wanted)
    if n.has(3):
        n.require_same(3, (split[1] * split[3] + key[1] * key[3] + value[1] * value[3],), "the bias")
    if n.has(6) or n.has(7):
        if len(n.shape(1)) != 3:
            raise Unchecked("keys that are a cache have no past")
        key, value = _behind_past(n, key, value, 6)
    if n.has(4):
        _mask(n, split, key)
    if n.has(5):
        n.spreads_to(5, (split[0], split[1], split[2], key[2]), "the bias of the scores")
    n.spend(product((split[0], split[1], split[2], key[2], split[3] + value[3])))
    present = () if n.outputs == 1 else (key, value)
    return [(split[0], split[2], split[1] * value[3]), *present, *(None,) * (n.outputs - 3)][: n.outputs]


def _behind_past(n: NodeScope, key: Dims, value: Dims, place: int) -> tuple[Dims, Dims]:
    """All keys and values, of which the past is two inputs from a place on."""
    if not n.has(place) or not n.has(place + 1):
        raise Unchecked("the past is only one of keys and values")
    rows = n.require_rank(place, 4, 4)[2]
    n.require_same(place, (key[0], key[1], rows, key[3]), "the past of the keys")
    n.require_same(place + 1, (value[0], value[1], rows, value[3]), "the past of the values")
    total = rows + key[2]
    return (key[0], key[1], total, key[3]), (value[0], value[1], total, value[3])


def _packed(n: NodeScope) -> Outputs:
    """com.microsoft.Attention, which projects its input itself. Its past has keys and values along its first axis."""
    if n.has(6) or n.integer("past_present_share_buffer") or n.integer("do_rotary"):
        raise Unchecked("the past is a buffer, or the heads are turned")
    x, weights = n.require_rank(0, 3, 3), n.require_rank(1, 2, 2)
    n.require(equal(x[2], weights[0]), "{} columns for weights of {} rows", x[2], weights[0])
    heads, sizes = n.integer("num_heads"), n.ints("qkv_hidden_sizes") or ()
    parts: Dims = sizes or (divide(weights[1], 3),) * 3
    if heads < 1 or len(parts) != 3:
        raise Violation(f"num_heads is {heads}, and there are {len(parts)} hidden sizes")
    n.require(equal(parts[0] + parts[1] + parts[2], weights[1]), "weights of {} columns for three parts", weights[1])
    n.require(equal(parts[0], parts[1]), "{} columns of queries and {} of keys", parts[0], parts[1])
    query, value = (_heads(n, (x[0], x[1], part), heads, "a part") for part in (parts[0], parts[2]))
    if n.has(2):
        n.require_same(2, (weights[1],), "the bias")
    keys: Amount = x[1]
    if n.has(4):
        past = n.require_rank(4, 5, 5)[3]
        n.require_same(4, (2, x[0], heads, past, query[3]), "the past")
        n.require(equal(query[3], value[3]), "keys of {} and values of {} columns in one past", query[3], value[3])
        keys = past + keys
    if n.has(3):
        if len(n.require_rank(3, 1, 4)) > 2:
            raise Unchecked("a mask has more than two axes")
        _mask(n, query, (x[0], query[1], keys, query[3]), 3)
    if n.has(5):
        n.spreads_to(5, (x[0], query[1], x[1], keys), "the bias of the scores")
    n.spend(product((x[0], query[1], x[1], keys, query[3] + value[3])))
    return [(x[0], x[1], parts[2]), (2, x[0], heads, keys, query[3])][: n.outputs]


def _grouped(n: NodeScope) -> Outputs:
    """com.microsoft.GroupQueryAttention without what has fewer bits, and without positions or sinks as inputs."""
    if any(n.has(place) for place in (9, 11, 12, 13)):
        raise Unchecked("there are positions or sinks, or the past has fewer bits")
    heads, groups = n.integer("num_heads"), n.integer("kv_num_heads")
    query = n.require_rank(0, 3, 3)
    if n.has(1):
        key, value = n.require_rank(1, 3, 3), n.require_rank(2, 3, 3)
        split = _heads(n, query, heads, "the query")
        n.require_same(1, (query[0], query[1], groups * split[3]), "the key")
        n.require_same(2, key, "the value")
        new, _ = _heads(n, key, groups, "the key"), _heads(n, value, groups, "the value")
    else:
        if heads < 1 or groups < 1:
            raise Violation(f"there are {heads} heads of queries and {groups} of keys")
        _, _, rows, size = _heads(n, query, heads + 2 * groups, "the packed query")
        split, new = (query[0], heads, rows, size), (query[0], groups, rows, size)
    n.require(equal(remainder(split[1], groups), 0), "{} heads of queries for {} of keys", split[1], groups)
    present = new
    if n.has(3) or n.has(4):
        present, _ = _behind_past(n, new, new, 3)
    total = n.content(6)
    counts = product(n.require_rank(5, 1, 2))
    n.require(equal(counts, query[0]), "{} lengths of sequences for a batch of {}", counts, query[0])
    lengths = () if n.tensor(5).constant is None else n.content(5)
    if lengths and all(isinstance(one, int) for one in (*lengths, *total)):
        n.require(equal(present[2], total[0]), "{} keys, of which {} are counted", present[2], total[0])
        for one in lengths:
            n.require(
                equal(one + 1, present[2]), "a sequence of {} keys behind the first, where there are {}", one, total[0]
            )
        whole = present[2]
    else:
        whole = _counted(n, split[2], present[2] - split[2], total)
    if n.has(7):
        n.require(
            at_least(n.require_rank(7, 2, 2)[0], total[0]), "{} rows of cosines for {} keys", n.shape(7)[0], total[0]
        )
        n.require_same(8, n.shape(7), "the sines")
        n.require(at_least(split[3], n.shape(7)[1] * 2), "{} columns of a head, of {} cosines", split[3], n.shape(7)[1])
    if n.has(10):
        n.spreads_to(10, (query[0], split[1], query[1], total[0]), "the bias of the scores")
    n.spend(product((*split, whole)) * 2)
    present = (present[0], present[1], whole, present[3])
    return [(query[0], query[1], split[1] * split[3]), present, present, *(None,) * (n.outputs - 3)][: n.outputs]


def _counted(n: NodeScope, new: Amount, past: Amount, total: Dims) -> Amount:
    """Rows of a present whose past may be a buffer, where each run says how many keys there are."""
    if len(total) != 1:
        raise Violation(f"{len(total)} numbers say how many keys the longest sequence has")
    longest = total[0]
    first = equal(longest, new)
    n.require(at_least(longest, new), "{} keys, of which {} are new", longest, new)
    n.require(at_least(past + new, longest), "{} keys of a past of {} rows and {} new ones", longest, past, new)
    # The last of the new ones stands in the sequence, and the first of them behind the rows of the past that count.
    last = choose(first, longest, smallest(past + new, longest)) - 1
    n.require_elements(n.tensor(5), choose(first, 0, new - 1), last, "the last key of a sequence")
    return largest(past, longest)


def _mask(n: NodeScope, query: Dims, key: Dims, place: int = 4) -> None:
    """State what masks of keys are like: lengths, or one number per key."""
    shape = n.require_rank(place, 1, 4)
    if len(shape) == 1:
        counts = (query[0], query[0] * 3 + 2)
        n.require(any_of(*(equal(shape[0], one) for one in counts)), "a mask of {} lengths", shape[0])
    else:
        n.require(equal(shape[-1], key[2]), "a mask for {} keys, where there are {}", shape[-1], key[2])


def _rotary(n: NodeScope) -> Outputs:
    x, cosines, sines = n.require_rank(0, 3, 4), n.require_rank(1, 2, 3), n.require_rank(2, 2, 3)
    if len(cosines) != len(sines):
        raise Violation("cosines and sines do not have the same number of axes")
    for one, other in zip(cosines, sines, strict=True):
        n.require(equal(one, other), "cosines and sines have sizes {} and {}", one, other)
    heads = n.integer("num_heads")
    rows: Amount = x[2] if len(x) == 4 else x[1]
    if len(x) == 3 and heads:
        n.require(equal(remainder(x[2], heads), 0), "{} columns cannot be divided into {} heads", x[2], heads)
    size: Amount = x[3] if len(x) == 4 else divide(x[2], heads) if heads else cosines[-1] * 2
    turned: Amount = n.integer("rotary_embedding_dim") or size
    n.require(
        equal(cosines[-1] * 2, turned), "{} cosines for heads in which {} columns are rotated", cosines[-1], turned
    )
    n.require(at_least(size, turned), "{1} of {0} columns are rotated", size, turned)
    if n.has(3):
        if len(cosines) != 2:
            raise Violation("positions choose rows of cosines that do not form a table")
        n.require_same(3, (x[0], rows), "the positions")
        n.require_elements(n.tensor(3), 0, cosines[0] - 1, "a position")
    elif len(cosines) == 3:
        n.require(equal(cosines[0], x[0]), "cosines for {} batches instead of {}", cosines[0], x[0])
        n.require(equal(cosines[1], rows), "cosines for {} rows instead of {}", cosines[1], rows)
    return [x]


def _contributed_rotary(n: NodeScope) -> Outputs:
    """com.microsoft.RotaryEmbedding: the positions are the second input; one alone is that of the first row."""
    x, positions = n.require_rank(0, 3, 4), n.shape(1)
    table, sines = n.require_rank(2, 2, 2), n.require_rank(3, 2, 2)
    for one, other in zip(table, sines, strict=True):
        n.require(equal(one, other), "cosines and sines have sizes {} and {}", one, other)
    heads = n.integer("num_heads")
    rows: Amount = x[2] if len(x) == 4 else x[1]
    if len(x) == 3 and heads:
        n.require(equal(remainder(x[2], heads), 0), "{} columns cannot be divided into {} heads", x[2], heads)
    size: Amount = x[3] if len(x) == 4 else divide(x[2], heads) if heads else table[1] * 2
    turned: Amount = n.integer("rotary_embedding_dim") or size
    n.require(equal(table[1] * 2, turned), "{} cosines for heads in which {} columns are rotated", table[1], turned)
    if len(x) == 3 and not heads:
        n.require(
            equal(remainder(x[2], table[1] * 2), 0), "{} columns cannot be split into heads of {}", x[2], table[1] * 2
        )
    if len(positions) == 2:
        n.require_same(1, (x[0], rows), "the positions")
        n.require_elements(n.tensor(1), 0, table[0] - 1, "a position")
    else:
        n.require(equal(product(positions), 1), "there are {} first positions", product(positions))
        n.require_elements(n.tensor(1), 0, table[0] - rows, "the first position")
    return [x]


TABLE: Mapping[tuple[str, str], Constraint] = {
    ("", "Attention"): _attention,
    ("", "RotaryEmbedding"): _rotary,
    ("com.microsoft", "Attention"): _packed,
    ("com.microsoft", "GroupQueryAttention"): _grouped,
    ("com.microsoft", "MultiHeadAttention"): _several,
    ("com.microsoft", "RotaryEmbedding"): _contributed_rotary,
}
