"""Runs a session with the shapes that will come, before they come: what a first run does once is done then.

Memory plans are recorded, regions bound, lazy work of kernels done. Feeds come from `warmup_feeds`; what is made warm
is whatever `run` does, of which nothing is known here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ort_py.engine.metadata import ModelDescription
from ort_py.inspection.warmup_feeds import WarmupFeed, warmup_feeds
from ort_py.lazy_dataclass import dataclass
from ort_py.logs import lazy_logger

_logger = lazy_logger("ort_py.session")


@dataclass(frozen=True, slots=True)
class WarmedShape:
    """One shape that is warm.

    Attributes:
        shapes: Shape of each tensor that was fed, by input name.
        first: Seconds of its first run.
        second: Seconds of its second, which is what requests of this shape take.
    """

    shapes: Mapping[str, tuple[int, ...]]
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class WarmupReport:
    """The result of a warm-up.

    Attributes:
        warmed: Shapes that ran, in order.
        left_out: Shapes that the time limit left out, in words.
        seconds: Seconds of it all.
    """

    warmed: tuple[WarmedShape, ...]
    left_out: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        lines = [f"{'first':>12} {'second':>12}  shapes"]
        lines += [f"{one.first * 1e3:9.2f} ms {one.second * 1e3:9.2f} ms  {_words(one.shapes)}" for one in self.warmed]
        lines += [f"{'left out':>25}  {words}" for words in self.left_out]
        return "\n".join([*lines, f"{len(self.warmed)} shapes in {self.seconds:.2f} s"])


def warm_up(
    run: Callable[..., list[Any]],
    model: ModelDescription,
    shapes: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
    progress: Callable[[int, int, str], object] | None,
    seconds: float | None,
) -> WarmupReport:
    """See `InferenceSession.warmup`."""
    began = time.perf_counter()
    feeds = warmup_feeds(model.inputs, model.overridable, shapes)
    warmed: list[WarmedShape] = []
    for number, feed in enumerate(feeds):
        if seconds is not None and time.perf_counter() - began >= seconds:
            break
        if progress is not None:
            progress(number, len(feeds), _words(feed.shapes))
        # The first run records, the second is the first to run from the record.
        first, second = _timed_run(run, feed), _timed_run(run, feed)
        warmed.append(WarmedShape(feed.shapes, first, second))
        times = f"{first * 1e3:.1f} ms, then {second * 1e3:.1f} ms"
        _logger.info("warm-up %d of %d: %s: %s", number + 1, len(feeds), _words(feed.shapes), times)
    left_out = tuple(_words(feed.shapes) for feed in feeds[len(warmed) :])
    if left_out:
        _logger.warning("warm-up: the time limit of %s s left out %d of %d shapes", seconds, len(left_out), len(feeds))
    elif progress is not None:
        progress(len(feeds), len(feeds), "")
    return WarmupReport(tuple(warmed), left_out, time.perf_counter() - began)


def _timed_run(run: Callable[..., list[Any]], feed: WarmupFeed) -> float:
    start = time.perf_counter()
    try:
        run(None, feed.values)
    except Exception as error:
        error.add_note(
            f"While warming up with {_words(feed.shapes)}."
            + (" Generated inputs are zeros: pass real values if the model depends on them." if feed.made_up else "")
        )
        raise
    return time.perf_counter() - start


def _words(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {'x'.join(map(str, shape)) or 'scalar'}" for name, shape in shapes.items()) or "no tensor"
