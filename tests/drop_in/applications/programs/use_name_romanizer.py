"""The romanizer writes Arabic names in Latin letters: an encoder once, a decoder again and again."""

from __future__ import annotations

from typing import Any

import results


def application() -> Any:
    """Spellings of names it has in a list, and of names that its models must spell."""
    from arabic_name_romanizer import transliterate

    names = ("محمد صلاح", "زغلطوم شقنبري")
    return [[found.text for found in transliterate(name, top_k=3)] for name in names]


results.main(application)
