"""Numbers of oneDNN's C API: enumerations, and the argument codes that are macros there.

They are part of the stable v3 interface; only its ``*_last`` markers, which are not used here, change from release to
release. Numbers that no message names are plain: each member of an enumeration takes its time when it is imported.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "F32",
    "FORWARD_INFERENCE",
    "INTEGERS",
    "TAGS_BLOCKED",
    "TAG_ANY",
    "Algorithm",
    "Argument",
    "Binary",
    "Element",
    "Eltwise",
    "NormalizationFlag",
    "Query",
    "Status",
]

TAG_ANY = 1
TAGS_BLOCKED = {3: 69, 4: 102, 5: 142}
"""By rank, the layout of pictures in which eight channels lie together: aBc8b, aBcd8b, aBcde8b."""

FORWARD_INFERENCE = 96
SCRATCHPAD_USER = 1
BLOCKED = 2
"""Format kind of a layout that is strides and inner blocks; others are opaque."""


class Element(IntEnum):
    """Types of elements."""

    F16 = 1
    BF16 = 2
    F32 = 3
    S32 = 4
    S8 = 5
    U8 = 6

    @property
    def nbytes(self) -> int:
        """Bytes of one."""
        return _BYTES[self]


_BYTES = {Element.F16: 2, Element.BF16: 2, Element.F32: 4, Element.S32: 4, Element.S8: 1, Element.U8: 1}
F32 = Element.F32
INTEGERS = frozenset({Element.S32, Element.S8, Element.U8})
AS_DESTINATION = 0
"""In place of a type in a post-op that sums: that of the destination."""


class Status(IntEnum):
    """The result code of a call."""

    SUCCESS = 0
    OUT_OF_MEMORY = 1
    INVALID_ARGUMENTS = 2
    UNIMPLEMENTED = 3
    LAST_IMPL_REACHED = 4
    RUNTIME_ERROR = 5
    NOT_REQUIRED = 6
    INVALID_GRAPH = 7
    INVALID_GRAPH_OP = 8
    INVALID_SHAPE = 9
    INVALID_DATA_TYPE = 10


class Argument:
    """Codes of what a primitive is given when it runs."""

    SRC = 1
    SRC_1 = 2
    SRC_2 = 3
    DST = 17
    DST_1 = 18
    DST_2 = 19
    WEIGHTS = 33
    WEIGHTS_1 = 34
    BIAS = 41
    MEAN = 49
    VARIANCE = 50
    SCALE = 51
    SHIFT = 52
    SCRATCHPAD = 80
    MULTIPLE_SRC = 1024
    WRITTEN = frozenset({17, 18, 19, 80})
    """What a primitive writes: its results, and its scratch memory."""

    @staticmethod
    def post_op(index: int) -> int:
        """The second operand of the binary post-op in this place."""
        return 32768 * (index + 1) | Argument.SRC_1

    @staticmethod
    def scales(argument: int) -> int:
        """The scales of an argument."""
        return 4096 | argument

    @staticmethod
    def zero_points(argument: int) -> int:
        """The zero points of an argument."""
        return 8192 | argument


class Query:
    """A query about a descriptor."""

    IMPL_INFO_STR = 8
    SRC_MD = 129
    WEIGHTS_MD = 131
    DST_MD = 133
    SCRATCHPAD_MD = 136
    EXEC_ARG_MD = 255
    NDIMS = 256
    DIMS = 257
    DATA_TYPE = 258
    OFFSET = 259
    PADDED_DIMS = 260
    FORMAT_KIND = 262
    INNER_NBLKS = 263
    INNER_BLKS = 264
    INNER_IDXS = 265
    STRIDES = 14


class Algorithm:
    """Algorithms of primitives other than the element-wise and binary ones."""

    CONVOLUTION_DIRECT = 0x1
    CONVOLUTION_AUTO = 0x3
    DECONVOLUTION_DIRECT = 0xA
    POOLING_MAX = 0x1FF
    POOLING_AVG_INCLUDE_PADDING = 0x2FF
    POOLING_AVG_EXCLUDE_PADDING = 0x3FF
    LRN_ACROSS_CHANNELS = 0xAFF
    RESAMPLING_NEAREST = 0x2FFF0
    RESAMPLING_LINEAR = 0x2FFF1
    REDUCTION_MAX = 0x2FFF2
    REDUCTION_MIN = 0x2FFF3
    REDUCTION_SUM = 0x2FFF4
    REDUCTION_MUL = 0x2FFF5
    REDUCTION_MEAN = 0x2FFF6
    REDUCTION_NORM_LP_SUM = 0x2FFF8
    SOFTMAX_ACCURATE = 0x30000
    SOFTMAX_LOG = 0x30001


class Eltwise:
    """Functions of one argument, with two parameters alpha and beta."""

    RELU = 0x20
    TANH = 0x21
    ELU = 0x22
    SQUARE = 0x23
    ABS = 0x24
    SQRT = 0x25
    LINEAR = 0x26
    HARDSIGMOID = 0x28
    LOGISTIC = 0x29
    EXP = 0x2A
    GELU_TANH = 0x2B
    SWISH = 0x2C
    LOG = 0x2D
    CLIP = 0x2E
    CLIP_V2 = 0x2F
    POW = 0x30
    GELU_ERF = 0x31
    ROUND = 0x32
    MISH = 0x33
    HARDSWISH = 0x34
    ERF = -1
    """None of oneDNN's: see `vector_functions`."""


class Binary(IntEnum):
    """Functions of two arguments."""

    ADD = 0x1FFF0
    MUL = 0x1FFF1
    MAX = 0x1FFF2
    MIN = 0x1FFF3
    DIV = 0x1FFF4
    SUB = 0x1FFF5
    GE = 0x1FFF6
    GT = 0x1FFF7
    LE = 0x1FFF8
    LT = 0x1FFF9
    EQ = 0x1FFFA
    NE = 0x1FFFB


class NormalizationFlag:
    """Bits of the normalisations' flags."""

    GLOBAL_STATS = 1
    SCALE = 2
    SHIFT = 4
