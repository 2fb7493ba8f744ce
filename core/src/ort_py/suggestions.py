"""Suggestions of existing names for an unknown one: "Did you mean …?".

A leaf: imports nothing of ort-py. It is independent of kinds of name; rooms whose names have a form of their own
(`discovery`) say what of it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


def close_names(
    name: str, known: Iterable[str], *, fold: Callable[[str], str] = str.lower, most: int = 1, cutoff: float = 0.6
) -> list[str]:
    """The known names that are close to a name, the closest first.

    Args:
        name: The unknown name.
        fold: Takes away what does not count when names are compared.
        cutoff: Least similarity, 1 being equal.
    """
    import difflib  # only a mistake needs it

    by_form: dict[str, list[str]] = {}
    for candidate in known:
        by_form.setdefault(fold(candidate), []).append(candidate)
    close = difflib.get_close_matches(fold(name), by_form, most, cutoff)
    return [candidate for form in close for candidate in by_form[form]][:most]


def question(names: Sequence[str]) -> str:
    """``Did you mean 'a' or 'b'?``, or ``""`` if there are no names."""
    return f"Did you mean {' or '.join(map(repr, names))}?" if names else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``Did you mean 'a'?`` with the closest of the known names, or ``""`` where none is close; case does not count."""
    return question(close_names(name, known))
