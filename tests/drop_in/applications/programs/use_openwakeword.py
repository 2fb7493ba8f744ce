"""openWakeWord listens for its wake words, and for speech."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import results
import sounds


def application() -> Any:
    """Scores of every wake word, and of speech, for each piece of the sound."""
    # Training is of no account here, and the only part that needs scikit-learn.
    training = ModuleType("openwakeword.custom_verifier_model")
    training.__dict__["train_custom_verifier"] = None
    sys.modules[training.__name__] = training
    from openwakeword import VAD, Model

    samples = (sounds.hum() * 32767).astype(np.int16)
    heard = Model().predict_clip(samples, padding=0)
    voice = VAD()
    speech = [float(voice.predict(samples[start : start + 1280])) for start in range(0, samples.size - 1280, 1280)]
    return {"words": [{name: float(score) for name, score in scores.items()} for scores in heard], "speech": speech}


results.main(application)
