"""Exceptions for the errors that cuDNN's calls return.

`Unsupported` is an answer and no failure: a kernel then goes another way. Everything else ends the run.
"""

from __future__ import annotations

from ort_py.errors import EPFail

__all__ = ["CudnnError", "Unsupported", "is_refusal"]


class CudnnError(EPFail):
    """A call of cuDNN failed.

    Attributes:
        status: ``cudnnStatus_t``, 0 where the front end tells no number.
    """

    status: int = 0


class Unsupported(CudnnError):
    """cuDNN, or the installed front end, has no implementation for what was asked."""


def is_refusal(status: int) -> bool:
    """Return whether a status says that cuDNN has no implementation, rather than that one failed.

    The older calls name many combinations of types and layouts that they lack a bad parameter (from 2000 on), and 4001
    is a kernel that could not be compiled. Nothing was enqueued then.
    """
    return 2000 <= status < 4000 or status == 4001
