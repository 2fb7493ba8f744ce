"""Numbers of XNNPACK's C API, by the names that they have here."""

from __future__ import annotations

from enum import IntEnum

from ort_py.errors import EPFail

__all__ = [
    "ADD",
    "BFLOAT16",
    "BLOCKS_OF_INT4",
    "CHANNELS_OF_INT8",
    "CHANNELS_OF_INT32",
    "DIVIDE",
    "EXTRA_BYTES",
    "FLOAT",
    "HALF",
    "INFINITY",
    "INT8",
    "MAXIMUM",
    "MINIMUM",
    "MULTIPLY",
    "NO_VALUE",
    "PRELU",
    "ROWS_OF_INT8",
    "SUBTRACT",
    "UINT8",
    "Flag",
    "Reduction",
    "Unary",
    "check",
]

NO_VALUE = 0xFFFFFFFF
EXTRA_BYTES = 16
"""Bytes that kernels may read behind the end of what they are given."""
FLOAT = 1
HALF = 2
"""Numbers of float16."""
INT8 = 3
UINT8 = 4
CHANNELS_OF_INT8 = 6
CHANNELS_OF_INT32 = 7
"""Integers with a scale for each entry of an axis."""
ROWS_OF_INT8 = 9
"""Integers of 8 bits with a scale and a zero point a row, which are found in each run."""
BLOCKS_OF_INT4 = 12
"""Integers of 4 bits with a scale a block of a row."""
BFLOAT16 = 14
INFINITY = float("inf")

ADD, SUBTRACT, MULTIPLY, DIVIDE, MAXIMUM, MINIMUM = range(6)
PRELU = 8


class Unary(IntEnum):
    """Functions of one operand."""

    ABS = 0
    APPROXIMATE_GELU = 1
    ROUND = 2
    CEILING = 3
    CLAMP = 4
    CONVERT = 5
    ELU = 7
    FLOOR = 9
    GELU = 10
    HARD_SWISH = 11
    LEAKY_RELU = 12
    NEGATE = 14
    RECIPROCAL_ROOT = 15
    SIGMOID = 16
    SQUARE = 19
    TANH = 20


class Reduction(IntEnum):
    """The reductions of elements along axes."""

    SUM = 0
    MEAN = 2
    MEAN_OF_SQUARES = 3
    MAXIMUM = 4
    MINIMUM = 5


class Flag(IntEnum):
    """Flags of values, nodes and runtimes; their numbers mean something else for each."""

    INPUT = 0x1
    OUTPUT = 0x2
    TRANSPOSED_WEIGHTS = 0x1
    ALIGNED_CORNERS = 0x8
    ASYMMETRIC = 0x4
    KEEP_AXES = 0x40
    WORKERS_SLEEP = 0x10


_WORDS = {
    1: "it is not initialised",
    2: "an argument is wrong",
    3: "it is in the wrong state",
    4: "it does not support one of the arguments",
    5: "it does not support this processor",
    6: "it ran out of memory",
    7: "memory has to be planned again",
    8: "the function is out of use",
}


def check(status: int, call: str, what: str = "") -> None:
    """Raise unless a call succeeded.

    Args:
        status: What the call returned.
        call: The C function.
        what: What it was asked for, in words.

    Raises:
        MemoryError: XNNPACK found no memory; the core then trims and tries once more.
        EPFail: Any other failure.
    """
    if not status:
        return
    subject = f" for {what}" if what else ""
    message = f"XNNPACK's {call} failed{subject}: status {status}."
    if status == 6:
        raise MemoryError(message)
    raise EPFail(
        message,
        why=(_WORDS.get(status, "the status is none that this package knows"),),
        fix="run the model with another CPU provider, and report the model",
    )
