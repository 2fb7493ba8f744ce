"""Keeps the modules loaded that a test of the kit has imported."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.inner import restore_modules


@pytest.fixture(autouse=True)
def modules_stay() -> Iterator[None]:
    """Restore modules after `pytester` has removed them: this fixture is set up before it, so it ends after it."""
    yield
    restore_modules()
