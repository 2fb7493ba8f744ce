"""Captcha Whisperer reads a few letters, from a file's contents."""

from __future__ import annotations

from typing import Any

import pictures
import results


def application() -> Any:
    """The letters."""
    import captcha_whisperer

    return captcha_whisperer.recognize(pictures.as_png(pictures.captcha()))


results.main(application)
