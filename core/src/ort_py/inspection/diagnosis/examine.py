"""Each installed provider tried in a child process: a crash or a hang is a finding, never this process's end.

Reads metadata, starts `child`, reads its notes, and ends it when its time is over. Imports no plug-in.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from ort_py.discovery.entry_points import installed_record, scan_providers
from ort_py.discovery.records import RecordState
from ort_py.hooks.entry_points import InstalledEntryPoint
from ort_py.hooks.switches import BLOCK
from ort_py.inspection.diagnosis.files import check_files
from ort_py.inspection.diagnosis.machine import machine_facts
from ort_py.inspection.diagnosis.report import Diagnosis, FileCheck, ProviderDiagnosis, TrialRun, Verdict
from ort_py.lazy_dataclass import dataclass

TIME_LIMIT = 60.0
"""Seconds a provider may take for everything: importing a vendor's libraries takes several."""

_AT_ONCE = 4
_KEPT_OUTPUT = 2000

_SWITCHES = ("ORT_PY_STRICT", "ORT_PY_COMPAT", "ORT_PY_PROVIDERS", "PYTHONWARNINGS")
"""Variables of applications that would change what the trial does."""

_DOING = {
    "": "starting Python and importing ort_py",
    "import": "being imported",
    "probe": "being probed",
    "session": "loading ort_py's engine",
    "run": "running a small model",
    "exit": "leaving the process",
}


def examine(names: Iterable[str] = (), *, seconds: float = TIME_LIMIT) -> Diagnosis:
    """Try the installed providers, each in a process of its own.

    Args:
        names: Providers to try, as names or ``distribution:Name``; all where empty.
    """
    scan = scan_providers()
    wanted = set(names)
    entries = [
        entry for entry in scan.entries if not wanted or {entry.name, f"{entry.distribution}:{entry.name}"} & wanted
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda entry: _examine(entry, scan.entries, seconds), entries))
    return Diagnosis(machine_facts(), tuple(found), scan.problems)


def _examine(entry: InstalledEntryPoint, entries: tuple[InstalledEntryPoint, ...], seconds: float) -> ProviderDiagnosis:
    record = installed_record(entry, entries)
    blank = ProviderDiagnosis(
        entry.name,
        entry.distribution,
        entry.version,
        entry.value,
        entry.location,
        Verdict.BLOCKED,
        record.reason,
        record.fix,
    )
    if record.state is RecordState.BLOCKED:
        return blank
    files = check_files(entry.distribution, entry.location)
    tried = _judged(replace(blank, files=files), _run_child(f"{entry.distribution}:{entry.name}", seconds), seconds)
    if record.state is RecordState.CONFLICT and tried.usable:
        return replace(tried, verdict=Verdict.CONFLICT, cause=record.reason, fix=record.fix)
    return _with_files(tried, files)


def _with_files(tried: ProviderDiagnosis, files: FileCheck) -> ProviderDiagnosis:
    """Name damaged files as the first suspect for any other problem."""
    if files.fine:
        return tried
    shown = [f"{file} was changed after it was installed" for file in files.modified]
    shown += [f"{file} is missing" for file in files.missing]
    what = "; ".join(shown[:5]) + (f"; and {len(shown) - 5} more" if len(shown) > 5 else "")
    fix = f"pip install --force-reinstall --no-deps {tried.distribution}=={tried.version}"
    if tried.usable:
        return replace(tried, verdict=Verdict.MODIFIED, cause=what, fix=fix)
    return replace(tried, cause=f"{tried.cause}; {what}", fix=f"{fix}, then try again. {tried.fix}".strip())


@dataclass(frozen=True, slots=True)
class _Ended:
    """The end of a child: its exit code, or None if it had to be killed, its notes and its output."""

    code: int | None
    stage: str
    result: dict[str, Any] | None
    stages_ms: dict[str, float]
    output: str
    seconds: float


def _run_child(address: str, seconds: float) -> _Ended:
    with tempfile.TemporaryDirectory(prefix="ort-py-doctor-", ignore_cleanup_errors=True) as folder:
        notes, output = Path(folder) / "notes", Path(folder) / "output"
        start = time.monotonic()
        with output.open("wb") as file:
            # Files, not pipes: a process that the plug-in started may hold a pipe open forever. A session of its own,
            # so that all of them can be ended together.
            child = subprocess.Popen(  # noqa: S603 - this very interpreter; names come from installed metadata
                [sys.executable, "-P", "-m", "ort_py.inspection.diagnosis.child", str(notes), address],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
                env={name: text for name, text in os.environ.items() if name not in _SWITCHES},
            )
            try:
                code: int | None = child.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _end(child)
        stage, result, stages_ms = _read(notes)
        return _Ended(code, stage, result, stages_ms, _kept(output.read_bytes()), time.monotonic() - start)


def _kept(output: bytes) -> str:
    """Return the end of an output; of a crash the beginning, since faulthandler writes the innermost call first."""
    crash = max(output.rfind(b"Fatal Python error"), output.rfind(b"Windows fatal exception"))
    kept = output[-_KEPT_OUTPUT:] if crash < 0 else output[crash : crash + _KEPT_OUTPUT]
    return kept.decode("utf-8", "replace").strip()


def _end(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):  # it is gone already, as it should be
        if hasattr(os, "killpg"):
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
    child.wait()


def _read(path: Path) -> tuple[str, dict[str, Any] | None, dict[str, float]]:
    stage = ""
    result: dict[str, Any] | None = None
    stages_ms: dict[str, float] = {}
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        try:
            note = json.loads(line)
        except ValueError:  # the process ended in the middle of writing it
            continue
        stage = note.get("stage", stage)
        result = note.get("result", result)
        stages_ms = note.get("stages_ms", stages_ms)
    return stage, result, stages_ms


def _judged(blank: ProviderDiagnosis, ended: _Ended, seconds: float) -> ProviderDiagnosis:
    known = replace(blank, stages_ms=ended.stages_ms, seconds=ended.seconds)
    block = f"leave it out with {BLOCK}={blank.distribution}"
    doing = _DOING.get(ended.stage, ended.stage)
    if ended.code is None:
        cause = f"it did not return within {seconds:g} s while {doing}"
        fix = f"Update {blank.distribution} or its driver, or {block}."
        return replace(known, verdict=Verdict.HUNG, stage=ended.stage, cause=cause, fix=fix, output=ended.output)
    if ended.code != 0 or ended.result is None:
        cause = f"it ended the process with {_how(ended.code)} while {doing}"
        fix = f"Reinstall or update {blank.distribution} and the libraries it uses, or {block}."
        return replace(known, verdict=Verdict.CRASHED, stage=ended.stage, cause=cause, fix=fix, output=ended.output)
    result = ended.result
    run = result.get("run")
    verdict = Verdict(result["verdict"])
    return replace(
        known,
        verdict=verdict,
        stage=result.get("stage", ""),
        cause=result.get("cause", ""),
        fix=result.get("fix", ""),
        vendor=result.get("vendor", ""),
        automatic=result.get("automatic", True),
        devices=tuple(result.get("devices", ())),
        run=None if run is None else TrialRun(**(run | {"max_error": float(run["max_error"])})),
        output="" if verdict in (Verdict.USABLE, Verdict.UNTRIED) else ended.output,
    )


def _how(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"the signal {signal.Signals(-code).name}"
    return f"the exit code {code if code < 1 << 16 else hex(code)}"
