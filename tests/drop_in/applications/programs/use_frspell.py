"""FrSpell finds lemmas and forms of French words, letter by letter, with quantised weights."""

from __future__ import annotations

from typing import Any

import results


def application() -> Any:
    """A lemma, and forms of a noun, an adjective and a verb."""
    from pyfrspell import FrSpell

    words = FrSpell()
    found = [
        words.lemma("mangeons"),
        words.noun_derive("chat", "THD_PLF"),
        words.adje_derive("beau", "THD_F"),
        words.verb_derive("manger", "FST_PL", "INDI", "PRES"),
    ]
    return [{name: value for name, value in one.items() if name != "timeMs"} for one in found]


results.main(application)
