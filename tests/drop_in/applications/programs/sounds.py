"""A sound the programs listen to: three seconds of a voice-like hum between silences."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["RATE", "hum"]

RATE = 16000


def hum() -> np.ndarray[Any, Any]:
    """Samples from -1 to 1, float32, at `RATE`."""
    random = np.random.default_rng(7)
    time = np.arange(3 * RATE) / RATE
    pitch = 130 + 25 * np.sin(2 * np.pi * 2.5 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    voice = sum(np.sin(order * phase) / order for order in range(1, 25))
    loud = ((time > 0.6) & (time < 2.2)) * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * time))
    return np.asarray(0.2 * voice * loud + 0.002 * random.standard_normal(time.size), np.float32)
