"""The captcha reader gives digits with confidences, one picture at a time and in batches."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pictures
import results


def application() -> Any:
    """Digits and confidences; the digits of a batch."""
    from vietcombank_captcha import VietcombankCaptcha

    reader = VietcombankCaptcha()
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "captcha.png"
        picture.write_bytes(pictures.as_png(pictures.captcha()))
        return [reader.predict_with_confidence(str(picture)), reader.predict_batch([str(picture)] * 3)]


results.main(application)
