"""The numbers: what a model may ask for, with the reason for each default.

Two kinds of bound. *Absolute* ones cap what one process should ever do for one model. *Relative* ones cap how much
bigger than its file a model may become: a small file that grows without end is an attack or a mistake, whatever
the machine can bear, while a large file has earned its size by being there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from ort_py.errors import OptionError
from ort_py.lazy_dataclass import dataclass

MIB = 1 << 20
GIB = 1 << 30

NODES_ALWAYS_ALLOWED = 100_000
"""Nodes inlining may make of any file, however small. At about 1 KB and 10 µs a node that is 100 MB and one second."""

INITIALIZER_BYTES_ALWAYS_ALLOWED = 256 * MIB
"""Bytes of constants any file may expand to, however small."""

_SWITCHES = frozenset({"isolated_inference", "unchecked_regions"})
"""Fields that are not numbers."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for loading and running one model. None means unlimited.

    Attributes:
        model_bytes: Size of the model file without external data. 2 GiB is what protobuf can hold.
        nodes_after_inlining: Nodes of the whole model, nested graphs and inlined functions counted. The largest graphs
            that exporters write have some ten thousand; a million takes a gigabyte of memory to hold.
        inlining_factor: Nodes may be at most this many times those written in the file (100,000 are always allowed).
            Functions are written once and called a few times a layer: 64 leaves room for deep networks, while a file
            of 22 functions that each call the previous one twice wants a factor of 60,000.
        nesting_depth: Graphs inside graphs. Models nest two or three deep; protobuf itself stops at 33, but functions
            that hold graphs and call each other get past that. Every level costs a frame when the model runs.
        initializer_bytes: Constants of the whole model, in memory. Unlimited, as the next bound follows the file.
        initializer_factor: Constants may take at most this many times the bytes of the model and of its external
            files (256 MiB are always allowed). Small integers in varints grow 8 times and short strings about 60
            times; sparse tensors without bound.
        single_allocation_bytes: One array, while loading or running. Larger tensors than 16 GiB do not occur in
            models; a wrong `Expand` or `ConstantOfShape` asks for terabytes.
        total_memory_bytes: Constants, what kernels make of them, and the arrays of one run together. Unlimited: only
            the operator of a service knows what its machine has to spare. `SessionOptions.memory_limit_bytes` sets it.
        load_seconds: Reading, checking, typing, optimising, placing and planning a model; not compiling for a device.
            Large models take seconds; five minutes means that something does not end.
        run_seconds: One `run()`. Unlimited: generating a text or a film takes as long as it takes.
        unchecked_regions: Whether compiled regions may hold nodes whose shapes and indices only their provider checks.
            What the engine can check itself is checked in any case.
        isolated_inference: Run ONNX's shape inference in another process. It is C++ that trusts the numbers of a model,
            and some of them crash it or keep it busy forever. Off: numbers that are known to do so are kept from
            it, and the other process takes a tenth of a second to start, once.
    """

    model_bytes: int | None = 2 * GIB
    nodes_after_inlining: int | None = 1_000_000
    inlining_factor: int | None = 64
    nesting_depth: int | None = 64
    initializer_bytes: int | None = None
    initializer_factor: int | None = 64
    single_allocation_bytes: int | None = 16 * GIB
    total_memory_bytes: int | None = None
    load_seconds: float | None = 300.0
    run_seconds: float | None = None
    unchecked_regions: bool = True
    isolated_inference: bool = False

    def __post_init__(self) -> None:
        for name in [field.name for field in fields(self)]:
            value = getattr(self, name)
            if value is None or name in _SWITCHES:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise OptionError(
                    f"Limits.{name} is {value!r}.",
                    why="a limit must be a positive number, or None for no limit",
                    fix=f"Pass e.g. Limits({name}={type(self).__dataclass_fields__[name].default!r}).",
                )

    @classmethod
    def untrusted(cls) -> Limits:
        """For models from strangers: what a service can give to one request without noticing.

        Half a gigabyte of file, a minute of `run`, 10 s of loading, 2 GiB of memory of which one array may take half a
        gigabyte, 16 levels of nesting, and 100,000 nodes. ONNX's shape inference runs in a process of its own.
        """
        return cls(
            model_bytes=512 * MIB,
            nodes_after_inlining=NODES_ALWAYS_ALLOWED,
            inlining_factor=16,
            nesting_depth=16,
            initializer_bytes=GIB,
            initializer_factor=16,
            single_allocation_bytes=512 * MIB,
            total_memory_bytes=2 * GIB,
            load_seconds=10.0,
            run_seconds=60.0,
            unchecked_regions=False,
            isolated_inference=True,
        )

    @classmethod
    def unlimited(cls) -> Limits:
        """No bound at all, for models you wrote yourself."""
        numbers: dict[str, Any] = dict.fromkeys(field.name for field in fields(cls) if field.name not in _SWITCHES)
        return cls(**numbers)

    def node_cap(self, written: int) -> int | None:
        """Nodes allowed after inlining for a file in which `written` nodes stand."""
        relative = max(NODES_ALWAYS_ALLOWED, self.inlining_factor * written) if self.inlining_factor else None
        return _smallest((self.nodes_after_inlining, relative))

    def initializer_cap(self, file_bytes: int) -> int | None:
        """Bytes of constants allowed for a model whose files, external ones counted, have `file_bytes`."""
        factor = self.initializer_factor
        relative = max(INITIALIZER_BYTES_ALWAYS_ALLOWED, factor * file_bytes) if factor else None
        return _smallest((self.initializer_bytes, relative))


def _smallest(bounds: Iterable[int | None]) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)
