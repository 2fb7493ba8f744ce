"""Tests of the kit's commands call ``ort-py`` in the way that tests of the core's commands do."""

from core.tests.cli.conftest import call

__all__ = ["call"]
