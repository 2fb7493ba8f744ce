"""Functions and classes of onnxruntime that ort-py does not have yet: they can be imported, and say so when called.

Applications import many names that they call on some paths only; with these stand-ins the import works and the call is
a clear error. It does not depend on subpackages: each lists its own names and what to use instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ort_py.errors import NotYetError


def missing(name: str, instead: str) -> NotYetError:
    """The error for something that is not there yet.

    Args:
        name: Its name with its module, e.g. ``quantization.quantize_dynamic``.
    """
    return NotYetError(
        f"ort-py has no {name} yet.",
        why="this subpackage of onnxruntime transforms models before they run, which ort-py does not do yet",
        fix=f"{instead} Or install ort-py-onnxruntime and onnxruntime, and run the program with `python -m "
        "ort_py.as_onnxruntime`: onnxruntime's own tools work there.",
    )


def missing_function(name: str, instead: str) -> Callable[..., NoReturn]:
    """A function that raises when it is called; see `missing`."""

    def function(*arguments: Any, **options: Any) -> NoReturn:
        raise missing(name, instead)

    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"Not there yet. {instead}"
    return function


def missing_class(name: str, instead: str) -> type:
    """A class that can be named and subclassed, and raises when one is made; see `missing`."""

    def __init__(self: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807 - it becomes the method
        raise missing(name, instead)

    return type(name.rpartition(".")[2], (), {"__init__": __init__, "__doc__": f"Not there yet. {instead}"})
