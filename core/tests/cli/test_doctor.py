"""``ort-py doctor``: arguments, text, exit codes. What it finds out is tested in `tests/discovery/test_doctor.py`."""

from __future__ import annotations

import pytest

from core.tests.cli.conftest import Call
from ort_py.cli import doctor
from ort_py.inspection.diagnosis.report import Diagnosis, FileCheck, ProviderDiagnosis, TrialRun, Verdict

MACHINE = {
    "ort_py": "1.0",
    "implementation": "CPython",
    "python": "3.12.1",
    "executable": "/usr/bin/python",
    "packages": {"numpy": "2.0", "onnx": ""},
    "platform": "Linux",
    "processor": "Some CPU",
    "features": ["avx2", "fma"],
    "threads": {"count": 2, "reason": "2 processor(s)"},
    "cgroup": {
        "processors": {"quota": 1.5, "group": "/pod"},
        "memory": [{"group": "/pod", "limit": 2 << 30, "used": 1 << 30}],
    },
    "cache": {"folder": "/cache", "state": "not private", "note": "others could write to it"},
    "environment": {"ORT_PY_CACHE": "/cache"},
}


def provider(name: str, verdict: Verdict, **facts: object) -> ProviderDiagnosis:
    """A provider with a verdict."""
    return ProviderDiagnosis(name, "pkg", "1.5", "pkg.plugin", "/site", verdict, **facts)  # type: ignore[arg-type]  # of keywords


GOOD = provider(
    "GoodExecutionProvider",
    Verdict.USABLE,
    devices=("cpu:0",),
    files=FileCheck(3),
    run=TrialRun("MatMul", {"GoodExecutionProvider": 1}, 0.0, 2.0, 0.5),
    stages_ms={"import": 10.0},
    seconds=1.0,
)
BAD = provider(
    "BadExecutionProvider", Verdict.CRASHED, cause="it ended the process", fix="reinstall it", output="Fatal error"
)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[ProviderDiagnosis]:
    """Results of the examination, for the test to fill in."""
    providers: list[ProviderDiagnosis] = []
    monkeypatch.setattr(doctor, "examine", lambda names, seconds: Diagnosis(MACHINE, tuple(providers)))
    return providers


def test_all_is_well(call: Call, found: list[ProviderDiagnosis]) -> None:
    """The machine, each provider with devices, run, files and time; exit code 0."""
    found.append(GOOD)
    outcome = call("doctor")
    assert outcome.code == 0
    for text in (
        "ort-py     1.0 on CPython 3.12.1",
        "numpy 2.0",
        "avx2 fma",
        "2: 2 processor(s)",
        "1.5 processors' worth of time in /pod",
        "1.0 GiB of 2.0 GiB of memory",
        "/cache: not private: others could write to it",
        "ORT_PY_CACHE=/cache",
        "USABLE       GoodExecutionProvider",
        "pkg 1.5, entry point pkg.plugin, in /site",
        "MatMul: 0.500 ms (first 2.0 ms), off by 0; nodes: GoodExecutionProvider 1",
        "3 checked, 0 modified, 0 missing",
        "1.0 s (ms: import 10)",
    ):
        assert text in outcome.out


@pytest.mark.parametrize("others", [[], [BAD], [GOOD]], ids=["alone", "beside an unusable one", "beside a usable one"])
def test_numpy_alone_is_said_to_be_slower(
    call: Call, found: list[ProviderDiagnosis], others: list[ProviderDiagnosis]
) -> None:
    """There may be no fast provider for the machine, so this is no problem of the installation."""
    found += [provider("CPUExecutionProvider", Verdict.USABLE), *others]
    assert ("models run on NumPy" in call("doctor").out) is (GOOD not in others)


def test_what_is_wrong_is_said_with_the_fix(call: Call, found: list[ProviderDiagnosis]) -> None:
    """Exit code 1; cause, fix and last words."""
    found += [GOOD, BAD]
    outcome = call("doctor")
    assert outcome.code == doctor.NOT_USABLE
    for text in (
        "CRASHED      BadExecutionProvider",
        "cause    it ended the process",
        "fix      reinstall it",
        "| Fatal error",
    ):
        assert text in outcome.out


def test_required_ones_decide(call: Call, found: list[ProviderDiagnosis]) -> None:
    """A required provider that is there makes 0, whatever else is wrong; one that is not makes 3."""
    found += [GOOD, BAD]
    assert call("doctor", "--require", "GoodExecutionProvider").code == 0
    outcome = call("doctor", "--require", "BadExecutionProvider", "--require", "CUDAExecutionProvider")
    assert outcome.code == doctor.REQUIRED_MISSING
    assert "required and not usable: BadExecutionProvider (crashed: it ended the process)" in outcome.out
    assert "pip install ort-py-" in outcome.out


def test_json(call: Call, found: list[ProviderDiagnosis]) -> None:
    """The same as data, with the exit code."""
    found += [GOOD, BAD]
    report = call("doctor", "--json").report
    assert [one["verdict"] for one in report["providers"]] == ["usable", "crashed"]
    assert (report["fine"], report["exit_code"], report["machine"]["threads"]["count"]) == (False, 1, 2)


def test_nothing_installed(call: Call, found: list[ProviderDiagnosis]) -> None:
    """Without a provider nothing runs: not fine."""
    outcome = call("doctor")
    assert outcome.code == doctor.NOT_USABLE
    assert "pip install ort-py-cpu" in outcome.out


@pytest.mark.parametrize("text", ["0", "-1", "soon", "1e9"])
def test_a_time_limit_must_be_one(call: Call, text: str) -> None:
    """Exit code 2, as for any wrong command line."""
    outcome = call("doctor", f"--timeout={text}")
    assert outcome.code == 2
    assert "is not a number of seconds" in outcome.err


@pytest.mark.parametrize(("automatic", "fine"), [(True, False), (False, True)])
def test_what_is_used_by_name_only_may_be_unavailable(automatic: bool, fine: bool) -> None:
    """Sessions that do not name it lose nothing."""
    assert provider("AcmeExecutionProvider", Verdict.UNAVAILABLE, automatic=automatic).fine is fine
