"""text2tashkeel writes the vowel marks into Arabic text, with three of its quantised models."""

from __future__ import annotations

from typing import Any

import results


def application() -> Any:
    """The text with marks."""
    from text2tashkeel import Diacritizer

    sentence = "بسم الله الرحمن الرحيم"
    return [
        Diacritizer(name).diacritize(sentence) for name in ("rawi-ensemble", "bilstm-int8+rawi-int8", "rawi-v3-int8")
    ]


results.main(application)
