"""Read straight, upright lines: crops in, text and certainty out.

Comes last. The network gives, for every few columns, a probability for each character and for "nothing new" (CTC).
Lines are run in small batches of similar width, because a batch is as wide as its widest line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from examples.ocr.crops import LINE_HEIGHT, as_line
from examples.ocr.detection import to_network_range
from examples.ocr.runtime import Session

__all__ = ["alphabet_of", "read_lines"]

_BATCH = 6
_NARROWEST = 320
"""Width the network was trained with; narrower lines are padded to it."""


def alphabet_of(session: Session) -> list[str]:
    """Character of each class: class 0 is "nothing new", the last is the space."""
    return ["", *session.get_modelmeta().custom_metadata_map["character"].splitlines(), " "]


def read_lines(session: Session, crops: Sequence[Image.Image]) -> list[tuple[str, float]]:
    """Text and mean probability of its characters, one pair a crop in the order of the crops."""
    alphabet = alphabet_of(session)
    lines = [as_line(crop) for crop in crops]
    order = sorted(range(len(lines)), key=lambda index: lines[index].width)
    texts: dict[int, tuple[str, float]] = {}
    for start in range(0, len(order), _BATCH):
        chosen = order[start : start + _BATCH]
        width = max(_NARROWEST, *(lines[index].width for index in chosen))
        batch = np.zeros((len(chosen), 3, LINE_HEIGHT, width), dtype=np.float32)
        for row, index in enumerate(chosen):
            batch[row, :, :, : lines[index].width] = to_network_range(lines[index])
        (probabilities,) = session.run(None, {"x": batch})
        for index, line in zip(chosen, np.asarray(probabilities), strict=True):
            texts[index] = _decode(line, alphabet)
    return [texts[index] for index in range(len(crops))]


def _decode(probabilities: np.ndarray[Any, Any], alphabet: Sequence[str]) -> tuple[str, float]:
    """The likeliest class of each step, repetitions and "nothing new" left out."""
    classes = probabilities.argmax(axis=1)
    kept = (classes != 0) & np.concatenate([[True], classes[1:] != classes[:-1]])
    if not kept.any():
        return "", 0.0
    return "".join(alphabet[index] for index in classes[kept]), float(probabilities.max(axis=1)[kept].mean())
