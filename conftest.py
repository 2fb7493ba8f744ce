"""What all tests share: the `quick` tier is everything that carries no marker of a slower tier.

Deriving it keeps the two from drifting apart: a test is quick unless somebody says why it is not.
"""

from __future__ import annotations

import os

import pytest

# Sessions of tests must not fill the cache of whoever runs them; tests of the cache name a folder of their own.
os.environ["ORT_PY_CACHE"] = "off"

SLOWER_TIERS = ("models", "packaging", "slow", "gpu")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the quick tier."""
    for item in items:
        if not any(item.get_closest_marker(name) for name in SLOWER_TIERS):
            item.add_marker(pytest.mark.quick)
