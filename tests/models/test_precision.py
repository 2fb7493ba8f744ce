"""Trained models in bfloat16: how far their outputs are from those in float32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import ort_py as ort
from examples.model_zoo import CATALOGUE, ZooModel, fetch
from tests.support.agreement import Agreement, agreement
from tests.support.model_inputs import cases_of

library = pytest.importorskip("ort_py_onednn.binding.library", reason="ort-py-onednn is not installed")

PROVIDER = "DnnlExecutionProvider"

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(
        isinstance(library.find(), library.Missing), reason="oneDNN cannot be opened on this machine: no library for it"
    ),
]

BOUND = Agreement(cosine=0.9999, same_largest=1.0, error=2e-2)
"""Classifiers and other short networks: what is largest stays largest."""

LOOSER: Mapping[str, Agreement] = {
    # Maps of scores, 0.3 % to 20 % of whose rows are background that is equal but for noise: directions count.
    "ppocr-v4-det": Agreement(0.999, 0.8, 5e-2),
    "mtcnn-pnet": Agreement(0.9998, 0.99, 2e-2),
    "slanet-mobile-v2": Agreement(0.9998, 1.0, 3e-2),
    "basic-pitch": Agreement(0.998, 0.9, 7e-2),
    # Sixty layers of few channels; one step in forty of a line of text is between two letters.
    "ppocr-v4-rec": Agreement(0.997, 0.95, 8e-2),
    # Embeddings of tokens: the largest of 384 numbers means nothing.
    "minilm-int8": Agreement(0.9999, 0.8, 2e-2),
    "silero-vad-v6-whisper": Agreement(0.9999, 1.0, 2e-2),
    "wakeword-hey-jarvis": Agreement(0.9999, 1.0, 5e-2),
    "wakeword-silero-vad": Agreement(0.9998, 1.0, 3e-2),
}
"""Models whose outputs say so little about single elements, or pass so many layers, that they need more, with why."""


def _run(model: ZooModel, feeds: Mapping[str, Any], precision: str) -> list[Any]:
    options = ort.SessionOptions()
    options.precision = precision
    providers = [PROVIDER, "CPUExecutionProvider"]
    with ort.InferenceSession(fetch(model), options, providers=providers) as session:
        notes = [note for stage in session.load_report.stages for note in stage.notes]
        for note in notes:
            if note.startswith(f"{PROVIDER} leaves"):
                pytest.skip(note)
        assert not session.fallback_report
        return list(session.run(None, dict(feeds)))


@pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: model.name)
def test_bfloat16_is_near_float32(model: ZooModel) -> None:
    """By the bound of its class: direction, largest element and norm of the error."""
    feeds = cases_of(model)[0].runs[0]
    bound = LOOSER.get(model.name, BOUND)
    found = agreement(_run(model, feeds, "bfloat16"), _run(model, feeds, "float32"))
    assert found.cosine >= bound.cosine, found
    assert found.same_largest >= bound.same_largest, found
    assert found.error <= bound.error, found
