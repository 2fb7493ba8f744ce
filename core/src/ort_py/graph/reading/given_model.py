"""The model that a caller gave, looked at once: a file, bytes, or a message; compiled by ort-py, or not.

Made at the door of an engine. Later stages ask it what it is and never look at the caller's object again.
"""

from __future__ import annotations

import os
from typing import Any

from ort_py.errors import ArgumentTypeError
from ort_py.lazy_dataclass import dataclass

COMPILED_MAGIC = b"ort-py model 1\n\0"
"""The first bytes of a compiled model."""

COMPILED_SUFFIX = ".ortpy"
"""The end of the name of a compiled model's file."""


def flat_bytes(source: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
    """The bytes of what was given, one after another: a view of other elements or of several axes is read in order."""
    if not isinstance(source, memoryview) or (source.format == "B" and source.ndim == 1 and source.c_contiguous):
        return source
    try:
        return source.cast("B")
    except TypeError:  # it has gaps, or no axes, or elements of a foreign byte order
        return memoryview(source.tobytes())


@dataclass(frozen=True, slots=True)
class GivenModel:
    """A model as it was given.

    Attributes:
        content: The path as text, the bytes, or the message; what `load_model` reads. Of a compiled model that was
            opened: the original model, or None if the file does not contain it.
        compiled: The compiled model, once it was opened and found to fit.
    """

    content: Any
    path: str
    is_message: bool
    compiled: Any = None

    @classmethod
    def of(cls, source: Any) -> GivenModel:
        """Look at what a caller gave.

        Args:
            source: Path of a model, its bytes, or an ``onnx.ModelProto``.

        Raises:
            ArgumentTypeError: It is something else; a builtin TypeError too.
        """
        if isinstance(source, GivenModel):
            return source
        if isinstance(source, str | os.PathLike):
            path = os.fsdecode(source)
            if not path:
                raise ArgumentTypeError("The path of the model is empty.", fix="Pass the path of the .onnx file.")
            return cls(path, path, is_message=False)
        if isinstance(source, bytes | bytearray | memoryview):
            return cls(flat_bytes(source), "", is_message=False)
        if hasattr(source, "SerializeToString") and hasattr(source, "graph"):
            return cls(source, "", is_message=True)
        raise ArgumentTypeError(
            f"A model cannot be loaded from a {type(source).__name__}.",
            fix="Pass a path, the bytes of a file, or an onnx.ModelProto.",
        )

    @property
    def is_compiled(self) -> bool:
        """True if the name of the file, or the beginning of the bytes, is that of a compiled model."""
        if self.path:
            return self.path[-len(COMPILED_SUFFIX) :].lower() == COMPILED_SUFFIX
        return not self.is_message and bytes(memoryview(self.content)[: len(COMPILED_MAGIC)]) == COMPILED_MAGIC

    @property
    def nbytes(self) -> int:
        """Bytes of the model in memory; 0 for a file."""
        if self.is_message:
            return int(self.content.ByteSize())
        return 0 if self.path else memoryview(self.content).nbytes
