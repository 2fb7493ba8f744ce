"""Primitives made before: the same computation for the same layouts and threads is made once a process.

Asking oneDNN for a primitive and for what that wants costs far more than a look-up here. The layers of a transformer
are alike, and a new length changes few of their primitives: a plan for it is mostly put together from what is there. A
primitive is never changed and holds no data, so plans share it.

A primitive that something else holds, such as a plan, is always found; `lasting_code` holds those whose memory the
library would not give back. Those that were asked for last are kept besides, up to a number of bytes. oneDNN's own
cache of primitives is off (`engine`), because it is bounded by number, and would hold what is dropped here.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, ParamSpec
from weakref import WeakValueDictionary

from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.primitive import Operand, Primitive, Scaling, Unimplemented

__all__ = ["forget", "remembered"]

_RECENT_BYTES = 24 << 20
"""Bytes of the primitives that were asked for last, plans or not: those of a shape or two of several models."""

_REFUSALS = 4096
"""Refusals that are remembered; each is a few hundred bytes."""

P = ParamSpec("P")


class _Recent:
    """The most recent requests, up to a number of bytes. The caller holds the lock."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[Primitive, int]] = OrderedDict()
        self._bytes = 0

    def note(self, key: Hashable, primitive: Primitive) -> None:
        """Put a primitive at the end, and drop those in front that are too many."""
        _, size = self._kept.pop(key, (None, 0))
        self._bytes -= size
        size = primitive.nbytes
        self._kept[key] = primitive, size
        self._bytes += size
        while self._bytes > _RECENT_BYTES and len(self._kept) > 1:
            _, (_, size) = self._kept.popitem(last=False)
            self._bytes -= size

    def clear(self) -> None:
        """Drop all."""
        self._kept.clear()
        self._bytes = 0


_lock = threading.Lock()
_alive: WeakValueDictionary[Hashable, Primitive] = WeakValueDictionary()
_recent = _Recent()
_refused: OrderedDict[Hashable, Unimplemented] = OrderedDict()


def remembered(make: Callable[P, Primitive]) -> Callable[P, Primitive]:
    """Wrap a function that makes primitives from layouts and numbers; what cannot be had is remembered likewise."""
    title = make.__name__

    @functools.wraps(make)
    def found(*args: P.args, **kwargs: P.kwargs) -> Primitive:
        key = title, _threads(), *map(_plain, args), *((name, _plain(value)) for name, value in kwargs.items())
        with _lock:
            known = _alive.get(key)
            if known is not None:
                _recent.note(key, known)
                return known
            refusal = _refused.get(key)
        if refusal is not None:
            raise Unimplemented(*refusal.args)
        try:
            made = make(*args, **kwargs)
        except Unimplemented as error:
            with _lock:
                _refused[key] = Unimplemented(*error.args)
                if len(_refused) > _REFUSALS:
                    _refused.popitem(last=False)
            raise
        with _lock:
            _alive[key] = made
            _recent.note(key, made)
        return made

    return found


def forget() -> None:
    """Forget all, for tests that count what is made."""
    with _lock:
        _alive.clear()
        _recent.clear()
        _refused.clear()


def _threads() -> int:
    """The number of threads that a primitive made now would be made for."""
    e = engine()
    return int(e.c.omp_get_max_threads()) if e.library.threaded else 1


def _plain(value: Any) -> Hashable:
    """An argument as something to compare: layouts by what they say."""
    if isinstance(value, Desc):
        return value.identity
    if isinstance(value, Operand):
        return "operand", value.algorithm, value.desc.identity
    if isinstance(value, Scaling):
        return tuple(sorted(value.scales.items())), tuple(sorted(value.zero_points.items()))
    if isinstance(value, (tuple, list)):  # faster to ask for than a Sequence
        return tuple([_plain(one) for one in value])
    found: Hashable = value
    return found
