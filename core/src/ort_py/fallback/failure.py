"""Reading a failed run: which provider failed, and whether memory, its device or something else is the reason.

Comes before `policy`, which says whether it may be answered. It is independent of plans: an error carries its place.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable

from ort_py.contracts import FailureKind, IExecutionProvider
from ort_py.errors import DeviceReset, InvalidArgument, InvalidGraph, MemoryLimitError, OrtPyError
from ort_py.lazy_dataclass import dataclass
from ort_py.logs import lazy_logger

_logger = lazy_logger("ort_py.session")


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that may be answered.

    Attributes:
        provider: The provider that failed, ``""`` where it was the core.
        limited: The memory that is short belongs to a limit, not to a device: only smaller runs help.
    """

    kind: FailureKind
    provider: str
    node: str
    reason: str
    limited: bool = False


def failure_of(error: Exception, providers: Iterable[IExecutionProvider]) -> Failure:
    """Classify a failed run's error. Kind CALLER means that nothing may be done about it.

    Args:
        providers: The session's providers, asked for the meaning of their own exceptions.
    """
    place = error.location if isinstance(error, OrtPyError) else None
    name = place.provider if place is not None else ""
    chain: list[BaseException] = [error, error.__cause__] if error.__cause__ is not None else [error]
    kind = FailureKind.CALLER if isinstance(error, InvalidArgument | InvalidGraph) else None
    if kind is None and isinstance(chain[-1], Exception):
        kind = _as_told(chain[-1], next((one for one in providers if one.name == name), None))
    if kind is None:
        kind = _as_read(error, chain)
    origin = chain[-1] if isinstance(chain[-1], Exception) else error
    text = getattr(origin, "what", None) or str(origin)
    return Failure(
        kind,
        name,
        place.node if place is not None else "",
        f"{type(origin).__name__}: {text}",
        isinstance(error, MemoryLimitError),
    )


def _as_told(error: BaseException, provider: IExecutionProvider | None) -> FailureKind | None:
    if provider is None:
        return None
    try:
        return provider.failure_kind(error)
    except Exception:  # a plug-in's code, asked about its own failure
        _logger.exception("%s: failure_kind failed", provider.name)
        return None


def _as_read(error: Exception, chain: list[BaseException]) -> FailureKind:
    if any(isinstance(one, DeviceReset) for one in chain):
        return FailureKind.DEVICE_LOST
    if any(isinstance(one, MemoryError | MemoryLimitError) for one in chain):
        return FailureKind.OUT_OF_MEMORY
    # What is not an error of ort-py comes from the caller's own objects and hooks: steps place whatever they raise.
    return FailureKind.FAILED if isinstance(error, OrtPyError) else FailureKind.CALLER


def forget_arrays(error: BaseException) -> None:
    """Drop what the failed run's calls hold: their arrays would be alive while the run is repeated."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        one = pending.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            pending += [one.__cause__, one.__context__]
