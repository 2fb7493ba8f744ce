"""An empty place to install fake distributions into."""

from __future__ import annotations

from pathlib import Path

import pytest

from .fake_site import FakeSite


@pytest.fixture
def site(tmp_path: Path) -> FakeSite:
    """A folder on the path of a fresh interpreter, with one provider that works."""
    found = FakeSite(tmp_path)
    found.install_good()
    return found
