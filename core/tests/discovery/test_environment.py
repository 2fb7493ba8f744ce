"""Environment variables are read when asked and refused when malformed."""

from __future__ import annotations

import pytest

from ort_py.discovery.environment import compat_mode, probe_seconds, requested_providers, strictness
from ort_py.errors import OptionError


def test_defaults() -> None:
    """Nothing set: nothing asked for, lenient about nothing, two seconds a probe."""
    assert requested_providers() is None
    assert strictness() == ""
    assert compat_mode() is False
    assert probe_seconds() == 2.0


def test_requested_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comma-separated list; spaces and empty entries do not count."""
    monkeypatch.setenv("ORT_PY_PROVIDERS", " A, B ,,")
    assert requested_providers() == ["A", "B"]


def test_argument_beats_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session's option wins over the environment, also to switch something off."""
    monkeypatch.setenv("ORT_PY_STRICT", "node")
    monkeypatch.setenv("ORT_PY_COMPAT", "1")
    assert strictness() == "node"
    assert strictness("") == ""
    assert compat_mode() is True
    assert compat_mode(False) is False


def test_malformed_strictness(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names its source and the values there are."""
    monkeypatch.setenv("ORT_PY_STRICT", "nodes")
    with pytest.raises(OptionError, match="environment variable ORT_PY_STRICT is 'nodes'") as caught:
        strictness()
    assert "Did you mean 'node'?" in caught.value.fix
    with pytest.raises(OptionError, match="option 'strict' is '1'"):
        strictness("1")


def test_malformed_compat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a yes nor a no."""
    monkeypatch.setenv("ORT_PY_COMPAT", "perhaps")
    with pytest.raises(OptionError, match="ORT_PY_COMPAT is 'perhaps'"):
        compat_mode()


@pytest.mark.parametrize("value", ["soon", "0", "-1", "nan", "inf"])
def test_malformed_timeout(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """A time limit is a positive number of seconds."""
    monkeypatch.setenv("ORT_PY_PROBE_TIMEOUT", value)
    with pytest.raises(OptionError, match="ORT_PY_PROBE_TIMEOUT is"):
        probe_seconds()


def test_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fractions of a second are fine."""
    monkeypatch.setenv("ORT_PY_PROBE_TIMEOUT", "0.25")
    assert probe_seconds() == 0.25
