"""RapidOCR reads a page."""

from __future__ import annotations

from typing import Any

import pictures
import results


def application() -> Any:
    """Text, place and score of each line."""
    from rapidocr_onnxruntime import RapidOCR

    lines, _ = RapidOCR()(pictures.page()[..., ::-1])
    return [{"text": text, "box": box, "score": float(score)} for box, text, score in lines]


results.main(application)
