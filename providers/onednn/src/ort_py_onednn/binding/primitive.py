"""A primitive: a compiled computation, what it wants to be given, and what is done with its result on the way out.

A primitive may be used by any number of threads and frames at once, because its scratch memory is always the caller's:
memory of the library's own gives wrong results across threads. It is made for the number of OpenMP threads that the
calling thread has at that moment and must be run with the same.

oneDNN answers in two steps: a description says which code there is and what it wants, and the code itself takes three
times as long. Planning asks for descriptions, some of which come to nothing; code is generated for what a plan keeps,
by several threads at once (`generation`), or at the latest when somebody wants the handle.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.calls import Call, CallList
from ort_py_onednn.binding.constants import (
    AS_DESTINATION,
    INTEGERS,
    SCRATCHPAD_USER,
    Argument,
    Binary,
    Element,
    Query,
    Status,
)
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import Engine, engine
from ort_py_onednn.binding.footprint import primitive_bytes
from ort_py_onednn.binding.hazards import hazards_of
from ort_py_onednn.binding.lasting_code import is_lasting, is_used_up, keep
from ort_py_onednn.binding.openmp import threads
from ort_py_onednn.binding.room import leave_room, room_for_threads
from ort_py_onednn.binding.status import Unimplemented, check

__all__ = [
    "UNSCALED",
    "Accumulate",
    "Function",
    "Geometry",
    "Operand",
    "PostOp",
    "Primitive",
    "Scaling",
    "Unimplemented",
]


@dataclass(frozen=True, slots=True)
class Function:
    """Post-op: a function of one argument, applied to the result."""

    algorithm: int
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True, slots=True)
class Operand:
    """Post-op: a function of the result and another tensor, which broadcasts."""

    algorithm: int
    desc: Desc


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Post-op: add to ``scale · (what the destination holds - zero_point)``."""

    scale: float = 1.0
    zero_point: int = 0


@dataclass(frozen=True, slots=True)
class Scaling:
    """Meaning of integers: scales and zero points, which a primitive receives when it runs.

    Attributes:
        scales: By the code of the argument they belong to: a mask of the dimensions along which they change, and how
            many there are. ``real = scale · (integer - zero point)``.
        zero_points: Likewise.
    """

    scales: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    zero_points: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def arguments(self) -> dict[int, Desc]:
        """The arguments that a primitive wants besides its own."""
        found = {Argument.scales(code): Desc.plain((count,)) for code, (_, count) in self.scales.items()}
        whole = Element.S32
        found |= {Argument.zero_points(code): Desc.plain((n,), whole) for code, (_, n) in self.zero_points.items()}
        return found


UNSCALED = Scaling()
PostOp: TypeAlias = Function | Operand | Accumulate
Geometry: TypeAlias = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]
"""Strides, dilations and the paddings in front and behind, a number each spatial dimension; dilations count from 1, as
in ONNX."""
Create: TypeAlias = Callable[[Any, Any], int]
"""``f(place for the descriptor, attributes)`` → status."""

_LONG_FOR_REFERENCE = 1 << 22
_LONG_FOR_PORTABLE = 1 << 27
_LONG_FOR_WINDOWS = 1 << 32
"""Operations from which a call may take a third of a second, on one thread: of the reference, which takes up to 80 ns
for each; of code that was not generated for the processor; and of generated code, whose windows are no products."""


class Primitive:
    """A computation for fixed descriptors, attributes and number of threads.

    Attributes:
        arguments: Every argument it wants when it runs, with its layout: a call that lacks one computes nothing, and
            one without the scratchpad crashes, so bindings are checked against this.
        implementation: oneDNN's name of the code, e.g. ``"jit:avx512_core"``; begins with ``"ref"`` where it is slow.
        lasting: Whether the library never gives the memory of the code back; see `lasting_code`.
        is_one_too_many: Whether it is, more of it should not be made, and oneDNN has nothing else for these layouts.
        hazards: What it does to NaN.
        nbytes: Memory that it takes, once its code is generated; estimated.
        operations: Elements of its largest tensor, or the result's times what is added up or compared for each.
    """

    __slots__ = (
        "__weakref__",
        "_call",
        "_count",
        "_handle",
        "_lock",
        "_pd",
        "_reach",
        "arguments",
        "hazards",
        "implementation",
        "is_one_too_many",
        "lasting",
        "nbytes",
        "operations",
    )

    def __init__(
        self,
        call: str,
        create: Create,
        arguments: Mapping[int, tuple[int, int]],
        posts: Sequence[PostOp],
        scaling: Scaling = UNSCALED,
        algorithm: int = 0,
        each: int = 1,
        avoids: Callable[[str], bool] | None = None,
    ) -> None:
        e = engine()
        c = e.c
        pd = ffi.gc(_descriptor(call, create, posts, scaling), c.dnnl_primitive_desc_destroy)
        self.implementation = _implementation(pd)
        if avoids is not None and avoids(self.implementation):
            if not _finds_other(pd, avoids):
                raise Unimplemented(f"{call}: {self.implementation} computes something else")
            self.implementation = _implementation(pd)
        self.lasting = is_lasting(self.implementation)
        self.is_one_too_many = self.lasting and is_used_up()
        if self.is_one_too_many:
            other = ffi.gc(_descriptor(call, create, posts, scaling), c.dnnl_primitive_desc_destroy)
            if _finds_other(other, lambda name: is_lasting(name) or (avoids is not None and avoids(name))):
                pd, self.implementation = other, _implementation(other)
                self.lasting = self.is_one_too_many = False
        self.nbytes = primitive_bytes(call, self.implementation)
        self.arguments: dict[int, Desc] = scaling.arguments()
        for argument, (query, index) in arguments.items():
            self._add(pd, argument, query, index)
        for index, post in enumerate(posts):
            if isinstance(post, Operand):
                code = Argument.post_op(index)
                self._add(pd, code, Query.EXEC_ARG_MD, code)
                self.arguments.setdefault(code, post.desc)
        self._add(pd, Argument.SCRATCHPAD, Query.SCRATCHPAD_MD, 0)
        target = self.arguments.get(Argument.DST)
        elements = {code: math.prod(desc.dims) for code, desc in self.arguments.items() if code != Argument.SCRATCHPAD}
        self.operations = max(each * elements.get(Argument.DST, 0), *elements.values())
        divisors = [post.desc.dims for post in posts if isinstance(post, Operand) and post.algorithm == Binary.DIV]
        divides = any(math.prod(dims) > 1 for dims in divisors)
        if algorithm == Binary.DIV:
            dims = self.arguments[Argument.SRC_1].dims
            divides |= math.prod(dims) > 1 or dims == self.arguments[Argument.SRC].dims
        self.hazards = hazards_of(
            call,
            algorithm,
            [post.algorithm for post in posts if not isinstance(post, Accumulate)],
            self.implementation,
            whole=target is not None and target.dtype in INTEGERS,
            divides=divides,
        )
        self._call = call
        self._count = int(c.omp_get_max_threads()) if e.library.threaded else 1
        self._pd: Any = pd
        self._handle: Any = None
        self._reach: tuple[tuple[int, int, int, bool], ...] | None = None
        self._lock = threading.Lock()

    @property
    def is_generated(self) -> bool:
        """True if its code is there."""
        return self._handle is not None

    @property
    def handle(self) -> Any:
        """The executable primitive. Its code is generated if necessary; errors are those of `generate`."""
        if self._handle is None:
            self.generate()
        return self._handle

    def generate(self) -> None:
        """Make the code, once.

        Raises:
            EPFail: oneDNN could not make it.
            MemoryError: For want of memory.
        """
        with self._lock:
            self._generate((self,))

    @classmethod
    def generate_together(cls, primitives: Iterable[Primitive]) -> None:
        """Make the code of several, all in one call without the interpreter; not of those that a thread is at just now.

        Raises:
            EPFail: oneDNN could not make one of them; those after it have none either.
            MemoryError: For want of memory.
        """
        taken = [one for one in dict.fromkeys(primitives) if one._lock.acquire(blocking=False)]
        try:
            cls._generate(taken)
        finally:
            for one in taken:
                one._lock.release()

    @staticmethod
    def _generate(held: Iterable[Primitive]) -> None:
        """The same for primitives whose locks are held."""
        e = engine()
        create, destroy = e.c.dnnl_primitive_create, e.c.dnnl_primitive_destroy
        missing = [(one, ffi.new("void **")) for one in held if one._handle is None]
        if not missing:
            return
        calls: list[tuple[Call, str]] = []
        for one, place in missing:
            if e.library.threaded:
                calls.append(((e.c.omp_set_num_threads, (one._count,), False), ""))
            calls.append(((create, (place, one._pd), True), f"{one._call} ({one.implementation})"))
        try:
            _run(e, CallList([call for call, _ in calls], [name for _, name in calls], "dnnl_primitive_create"))
        finally:
            for one, place in missing:
                if place[0] != ffi.NULL:
                    one._handle = ffi.gc(place[0], destroy)
                    one._pd = None
                    if one.lasting:
                        keep(one)

    @property
    def reach(self) -> tuple[tuple[int, int, int, bool], ...]:
        """Each argument with the first byte that it takes, counted from its address, the one behind the last, and
        whether it is written."""
        if self._reach is None:
            written = Argument.WRITTEN
            self._reach = tuple((code, *desc.reach, code in written) for code, desc in self.arguments.items())
        return self._reach

    @property
    def is_reference(self) -> bool:
        """True if the code is oneDNN's reference, which is correct and ten to a thousand times slower."""
        return bool(self.implementation.startswith("ref"))

    @property
    def is_tuned(self) -> bool:
        """True if the code was generated for this CPU, or is that of a product."""
        return not self.is_reference and not self.implementation.endswith(":any")

    @property
    def takes_long(self) -> bool:
        """Whether one call may take a third of a second or more, though nobody counted its products beforehand."""
        if self.is_reference:
            return self.operations > _LONG_FOR_REFERENCE
        if self.implementation.endswith(":any"):
            return self.operations > _LONG_FOR_PORTABLE
        return self._call == "pooling" and self.operations > _LONG_FOR_WINDOWS

    def _add(self, pd: Any, argument: int, query: int, index: int) -> None:
        found = Desc.borrowed(engine().c.dnnl_primitive_desc_query_md(pd, query, index))
        if found is not None:
            self.arguments[argument] = found


_spoiled = threading.local()


def _run(e: Engine, create: CallList) -> None:
    """Create primitives; also after there was no memory for some.

    The library's code generator then refuses all in the thread in which it failed, so another thread creates what this
    one cannot.
    """

    def run() -> None:
        leave_room()
        with threads(e.library, 1):
            create.run()

    try:
        if getattr(_spoiled, "here", False):
            _elsewhere(run)
        else:
            run()
    except MemoryError:
        _spoiled.here = True
        raise


def _elsewhere(run: Callable[[], None]) -> None:
    """Run in a new thread, and raise what it raises."""
    if not room_for_threads(1):
        raise MemoryError("There is no memory for a thread that makes code for oneDNN.")
    failures: list[BaseException] = []

    def caught() -> None:
        try:
            run()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=caught, name="ort-py-onednn-code", daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _descriptor(call: str, create: Create, posts: Sequence[PostOp], scaling: Scaling) -> Any:
    c = engine().c
    leave_room()  # objects of the library's own are written to unseen, be there memory for them or not
    attr, chain, pd = ffi.new("attr_t *"), ffi.new("void **"), ffi.new("pd_t *")
    check(c.dnnl_primitive_attr_create(attr), "dnnl_primitive_attr_create")
    try:
        check(c.dnnl_primitive_attr_set_scratchpad_mode(attr[0], SCRATCHPAD_USER), "dnnl_primitive_attr_set_scratchpad")
        for code, (mask, _) in scaling.scales.items():
            check(c.dnnl_primitive_attr_set_scales_mask(attr[0], code, mask), "dnnl_primitive_attr_set_scales_mask")
        for code, (mask, _) in scaling.zero_points.items():
            status = c.dnnl_primitive_attr_set_zero_points_mask(attr[0], code, mask)
            check(status, "dnnl_primitive_attr_set_zero_points_mask")
        if posts:
            check(c.dnnl_post_ops_create(chain), "dnnl_post_ops_create")
            try:
                for post in posts:
                    _append(chain[0], post)
                check(c.dnnl_primitive_attr_set_post_ops(attr[0], chain[0]), "dnnl_primitive_attr_set_post_ops")
            finally:
                c.dnnl_post_ops_destroy(chain[0])
        status = create(pd, attr[0])
    finally:
        c.dnnl_primitive_attr_destroy(attr[0])
    if status in {Status.UNIMPLEMENTED, Status.INVALID_ARGUMENTS}:
        # Which of the two it is depends on the implementation that was asked last: both mean that this cannot be had.
        raise Unimplemented(f"{call}: {Status(status).name.lower()}")
    check(status, call)
    return pd[0]


def _implementation(pd: Any) -> str:
    """oneDNN's name of the code that a description stands for."""
    name = ffi.new("const char **")
    check(engine().c.dnnl_primitive_desc_query(pd, Query.IMPL_INFO_STR, 0, name), "dnnl_primitive_desc_query")
    return str(ffi.string(name[0]).decode())


def _finds_other(pd: Any, refused: Callable[[str], bool]) -> bool:
    """Let a description stand for the next code that is not refused; False where there is only slow code."""
    following = engine().c.dnnl_primitive_desc_next_impl
    while following(pd) == Status.SUCCESS:
        name = _implementation(pd)
        if not refused(name):
            return not name.startswith("ref")
    return False


def _append(chain: Any, post: PostOp) -> None:
    c = engine().c
    if isinstance(post, Function):
        status = c.dnnl_post_ops_append_eltwise(chain, post.algorithm, post.alpha, post.beta)
    elif isinstance(post, Operand):
        status = c.dnnl_post_ops_append_binary(chain, post.algorithm, post.desc.handle)
    else:
        status = c.dnnl_post_ops_append_sum(chain, post.scale, post.zero_point, AS_DESTINATION)
    if status:
        check(status, "dnnl_post_ops_append", repr(post))
