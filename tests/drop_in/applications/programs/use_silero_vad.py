"""Silero VAD finds speech in a sound, with the model that takes whole blocks of frames."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import results
import sounds


def application() -> Any:
    """Probability of speech in each frame."""
    # Its package imports torch, which this path through it does not use.
    sys.modules["torch"] = MagicMock()
    import silero_vad
    from silero_vad.sequence_vad import SileroVADSequence

    model = SileroVADSequence(str(Path(silero_vad.__file__).parent / "data" / "silero_vad_16k_sequence.onnx"))
    return [float(chance) for chance in model.audio_forward(sounds.hum())]


results.main(application)
