"""Primitives made before: the same computation for the same layouts and threads is made once a process.

oneDNN remembers generated code itself, but asking it for a primitive and for what that wants costs ten times what a
look-up here does. The layers of a transformer are alike, and a new length changes few of their primitives: a plan for
it is mostly put together from what is there. A primitive is never changed and holds no data, so plans share it.

A bounded number is kept, and besides it those whose memory the library would not give back (`lasting_code`): each time
that such a primitive is made again, its code is lost once more.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, ParamSpec

from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.primitive import Operand, Primitive, Scaling, Unimplemented

__all__ = ["forget", "remembered"]

_KEPT = 4096
"""As many as a few models with a few shapes each have, or one with sixty; oneDNN keeps the code of as many."""

P = ParamSpec("P")

_lock = threading.Lock()
_made: OrderedDict[Hashable, Primitive | Unimplemented] = OrderedDict()
_lasting: dict[Hashable, Primitive] = {}
"""Generated primitives that would have left `_made`, though their code stays in memory; `lasting_code` bounds them."""


def remembered(make: Callable[P, Primitive]) -> Callable[P, Primitive]:
    """Wrap a function that makes primitives from layouts and numbers; what cannot be had is remembered likewise."""
    title = make.__name__

    @functools.wraps(make)
    def found(*args: P.args, **kwargs: P.kwargs) -> Primitive:
        key = title, _threads(), *map(_plain, args), *((name, _plain(value)) for name, value in kwargs.items())
        with _lock:
            known = _made.get(key)
            if known is not None:
                _made.move_to_end(key)
            else:
                known = _lasting.get(key)
        if known is None:
            try:
                known = make(*args, **kwargs)
            except Unimplemented as error:
                known = Unimplemented(*error.args)
            with _lock:
                _made[key] = known
                if len(_made) > _KEPT:
                    _leave(*_made.popitem(last=False))
        if isinstance(known, Unimplemented):
            raise Unimplemented(*known.args)
        return known

    return found


def forget() -> None:
    """Forget all, for tests that count what is made."""
    with _lock:
        _made.clear()
        _lasting.clear()


def _leave(key: Hashable, oldest: Primitive | Unimplemented) -> None:
    """Let go of the primitive that was not asked for the longest, unless its code stays in any case."""
    if isinstance(oldest, Primitive) and oldest.lasting and oldest.is_generated:
        _lasting[key] = oldest


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
