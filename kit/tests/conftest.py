"""Tests of the kit see the same providers as tests of the core: the one that completes, and no other."""

from core.tests.conftest import other_providers, without_other_providers

__all__ = ["other_providers", "without_other_providers"]
