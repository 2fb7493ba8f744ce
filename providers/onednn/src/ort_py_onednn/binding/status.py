"""Turning a status code of oneDNN into an exception that says which call failed, with what arguments, and why."""

from __future__ import annotations

from ort_py.errors import EPFail
from ort_py_onednn.binding.constants import Status

__all__ = ["Unimplemented", "check"]


class Unimplemented(Exception):
    """oneDNN has nothing for these shapes and layouts; the caller tries another way."""


_WORDS = {
    Status.OUT_OF_MEMORY: "it ran out of memory",
    Status.INVALID_ARGUMENTS: "an argument is missing or contradicts another",
    Status.UNIMPLEMENTED: "no implementation fits these shapes, types and layouts on this CPU",
    Status.RUNTIME_ERROR: "it failed while running",
}


def check(status: int, call: str, what: str = "") -> None:
    """Raise unless a call succeeded.

    Args:
        status: What the call returned.
        call: The C function.
        what: What it was asked for, in words.

    Raises:
        MemoryError: oneDNN found no memory; the core then trims and tries once more.
        EPFail: Any other failure.
    """
    if status == Status.SUCCESS:
        return
    try:
        kind = Status(status)
        name = kind.name.lower()
    except ValueError:
        kind, name = None, "unknown"
    subject = f" for {what}" if what else ""
    message = f"oneDNN's {call} failed{subject}: status {status} ({name})."
    if kind is Status.OUT_OF_MEMORY:
        raise MemoryError(message)
    why = _WORDS.get(kind) if kind is not None else None
    raise EPFail(
        message,
        why=(why,) if why else (),
        fix="run the model with another CPU provider, and report the shapes above",
    )
