"""The importable surface, compared with a list that is checked in, so that reviews show a change of it.

To change the surface on purpose, change `public_surface.toml` with it.
"""

from __future__ import annotations

import importlib
import inspect
import tomllib
from pathlib import Path

import pytest

SURFACE: dict[str, list[str]] = tomllib.loads(
    (Path(__file__).parent / "public_surface.toml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", SURFACE)
def test_public_names_are_the_listed_ones(module: str) -> None:
    assert sorted(importlib.import_module(module).__all__) == sorted(SURFACE[module])


@pytest.mark.parametrize("module", SURFACE)
def test_every_public_name_exists(module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in SURFACE[module] if not hasattr(found, name)] == []


@pytest.mark.parametrize("module", SURFACE)
def test_every_public_class_and_function_is_documented(module: str) -> None:
    """Everything that can be imported has documentation."""
    found = importlib.import_module(module)
    objects = {name: getattr(found, name) for name in SURFACE[module]}
    documented = {name: value for name, value in objects.items() if inspect.isclass(value) or inspect.isroutine(value)}
    assert [name for name, value in documented.items() if not (value.__doc__ or "").strip()] == []
