"""Runs of cases: what the names of providers of a campaign mean."""

from __future__ import annotations

from tests.fuzzing.runners import requested


def test_names_carry_options() -> None:
    """Options follow a question mark, so that names which contain a distribution keep their colon."""
    names = ["XnnpackExecutionProvider?claim_small=1&few_bits_only=0", "some-package:CPUExecutionProvider"]
    options = {"claim_small": "1", "few_bits_only": "0"}
    assert requested(names) == [("XnnpackExecutionProvider", options), "some-package:CPUExecutionProvider"]
    assert requested(None) is None
