"""Records describe a provider and where it comes from."""

from __future__ import annotations

from dataclasses import replace

from ort_py.discovery import FallbackRecord, ProviderRecord, RecordState

RECORD = ProviderRecord("AExecutionProvider", "pkg-a", "1.2", "pkg_a.plugin", location="/site")


def test_address_is_unambiguous() -> None:
    """The distribution tells two providers of one name apart; one without a distribution has its bare name."""
    assert RECORD.address == "pkg-a:AExecutionProvider"
    assert replace(RECORD, distribution="").address == "AExecutionProvider"


def test_text_names_state_origin_and_reason() -> None:
    broken = replace(RECORD, state=RecordState.BROKEN, reason="OSError: libx.so")
    assert str(broken) == "AExecutionProvider (distribution pkg-a 1.2 in /site) is broken: OSError: libx.so"
    assert replace(RECORD, distribution="").origin == "registered by the program"


def test_only_available_is_usable() -> None:
    usable = [state for state in RecordState if replace(RECORD, state=state).usable]
    assert usable == [RecordState.AVAILABLE]


def test_fallback_text() -> None:
    """A fallback says who, when, why and who takes over."""
    record = FallbackRecord("assignment", "A", "it raised.", node="conv1", replacement="B")
    assert str(record) == "A (node 'conv1') is not used, assignment: it raised. B takes over."
    assert str(FallbackRecord("selection", "A", "gone")) == "A is not used, selection: gone."
