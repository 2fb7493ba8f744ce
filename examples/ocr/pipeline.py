"""The reader: three sessions and the stages between them, with the time each takes.

Comes before `drawing` and `__main__`. Which runtime makes the sessions is the caller's choice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from PIL import Image

from examples.model_zoo import by_name, fetch
from examples.ocr.crops import cut_out
from examples.ocr.detection import probability_map
from examples.ocr.direction import turn_upright
from examples.ocr.recognition import read_lines
from examples.ocr.regions import Region, find_regions
from examples.ocr.runtime import Session, SessionFactory

__all__ = ["Line", "Reader", "Reading", "fetch_models"]

MODELS = {"detector": "ppocr-v4-det", "direction": "ppocr-v2-cls", "recogniser": "ppocr-v4-rec"}
MIN_SCORE = 0.5
"""Lines read with less certainty are left out."""

Result = TypeVar("Result")
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text: what it says, how sure that is, and where it stands."""

    text: str
    score: float
    region: Region


@dataclass(frozen=True, slots=True)
class Reading:
    """All lines of a picture from top to bottom, and the seconds each stage took."""

    lines: list[Line]
    seconds: dict[str, float] = field(default_factory=dict)


def fetch_models() -> dict[str, Path]:
    """The three model files, downloaded where they are not in the cache."""
    return {role: fetch(by_name(name)) for role, name in MODELS.items()}


class Reader:
    """Reads pictures. Holds one session for each network."""

    def __init__(self, models: dict[str, Path], open_session: SessionFactory, progress: Progress | None = None) -> None:
        """Open the sessions.

        Args:
            models: File of each role, as `fetch_models` gives them.
            open_session: Makes a session from a file.
            progress: Called with the name and the seconds of each stage as it ends.
        """
        self._progress = progress or (lambda stage, seconds: None)
        self.seconds: dict[str, float] = {}
        self.sessions: dict[str, Session] = {
            role: self._timed(f"load {role}", partial(open_session, path)) for role, path in models.items()
        }

    def read(self, picture: Image.Image) -> Reading:
        """Find, cut out, turn and read every line of an RGB picture."""
        self.seconds = {}
        probabilities = self._timed("find text", lambda: probability_map(self.sessions["detector"], picture))
        regions = self._timed("draw boxes", lambda: find_regions(probabilities, picture.size))
        crops = self._timed("cut out lines", lambda: [cut_out(picture, region.corners) for region in regions])
        upright = self._timed("turn lines", lambda: turn_upright(self.sessions["direction"], crops))
        texts = self._timed("read lines", lambda: read_lines(self.sessions["recogniser"], upright))
        lines = [
            Line(text, score, region)
            for (text, score), region in zip(texts, regions, strict=True)
            if score >= MIN_SCORE
        ]
        return Reading(lines, self.seconds)

    def _timed(self, stage: str, work: Callable[[], Result]) -> Result:
        started = time.perf_counter()
        result = work()
        self.seconds[stage] = time.perf_counter() - started
        self._progress(stage, self.seconds[stage])
        return result
