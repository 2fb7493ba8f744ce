"""The process that tries one provider: ``python -m ort_py.inspection.diagnosis.child FILE ADDRESS``.

Each stage is noted in the file before it begins, so that the parent process knows what was under way when it
ended or had to be ended. What the plug-in prints goes elsewhere.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ort_py.discovery import ProviderRecord, default_catalog
from ort_py.discovery.blame import culprit_of, root_cause
from ort_py.discovery.entry_points import scan_providers
from ort_py.hooks.guard import describe, guarded
from ort_py.hooks.switches import BLOCK, normalise_distribution

TOLERANCE = 1e-5


def main(arguments: list[str]) -> int:
    """Try a provider.

    Args:
        arguments: The file for notes, and the provider as ``distribution:Name``.

    Returns:
        0 where the examination came to its end, whatever it found.
    """
    faulthandler.enable()  # a crash tells where in the code it was
    notes = Notes(Path(arguments[0]))
    address = arguments[1]
    found = _examine(notes, address)
    notes.write({"result": found, "stages_ms": notes.finished()})
    notes.stage("exit")  # threads and handlers of the plug-in may still crash or hang
    return 0


class Notes:
    """Lines of JSON in a file, each there before anything else happens."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stage = ""
        self._since = time.perf_counter()
        self._times: dict[str, float] = {}

    def stage(self, name: str) -> None:
        self.finished()
        self._stage = name
        self.write({"stage": name})

    def finished(self) -> dict[str, float]:
        """Milliseconds of each stage so far."""
        now = time.perf_counter()
        if self._stage:
            self._times[self._stage] = (now - self._since) * 1e3
        self._stage, self._since = "", now
        return dict(self._times)

    def write(self, note: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")


def _examine(notes: Notes, address: str) -> dict[str, Any]:
    distribution, _, name = address.rpartition(":")
    notes.stage("import")
    for entry in scan_providers().entries:
        if entry.name == name and normalise_distribution(entry.distribution) == normalise_distribution(distribution):
            guarded(entry.load)  # a failure shows again below, with its reason
    notes.stage("probe")
    record = default_catalog().record(address)
    if record is None:
        return {"verdict": "broken", "cause": "it is gone", "stage": "probe", "fix": f"Reinstall {distribution}."}
    facts = _facts(record)
    if not record.usable:
        return facts | {"verdict": record.state.value, "stage": "probe"}
    return facts | _try(notes, address, distribution)


def _facts(record: ProviderRecord) -> dict[str, Any]:
    return {
        "cause": record.reason,
        "fix": record.fix,
        "vendor": record.vendor,
        "automatic": record.automatic,
        "devices": [str(device) for device in record.devices],
    }


def _try(notes: Notes, address: str, distribution: str) -> dict[str, Any]:
    notes.stage("session")
    try:
        from ort_py.inspection.diagnosis.trial import Refused, completing_for, try_provider
    except Exception as error:  # nothing of the provider is used yet
        return {"verdict": "broken", "stage": "session"} | _blame(error, "ort-py-core", "loading ort_py's engine")
    notes.stage("run")
    try:
        trial = try_provider(address, completing_for(address))
    except Refused as error:
        return {"verdict": "untried", "cause": f"it runs no node of the test models: {error}"}
    except (Exception, SystemExit) as error:  # a plug-in's code: whatever it raises is the finding
        # The advice of the error is meant for other models; this one is known to be right.
        blame = _blame(error, distribution, "running a small model", _modules_of(address))
        return {"verdict": "broken", "stage": "run"} | blame
    found: dict[str, Any] = {"verdict": "usable", "run": asdict(trial)}
    if not trial.max_error <= TOLERANCE:
        found |= {
            "verdict": "wrong",
            "stage": "run",
            "cause": f"{trial.model} differs by {trial.max_error:g} from the correct result",
            "fix": f"Leave it out with {BLOCK}={distribution}, and report it to its maintainers.",
        }
        found["run"]["max_error"] = str(trial.max_error)  # infinity is not a number in JSON
    return found


def _modules_of(address: str) -> list[str]:
    """Top-level modules of a provider's entry point."""
    entries = (entry for entry in scan_providers().entries if f"{entry.distribution}:{entry.name}" == address)
    return [entry.value.partition(":")[0].partition(".")[0] for entry in entries]


def _blame(error: BaseException, distribution: str, doing: str, modules: Sequence[str] = ()) -> dict[str, str]:
    """Cause and fix of what was raised: the package that failed may be another one than the provider's."""
    cause = f"{doing} raised {_first_line(error)}"
    culprit = culprit_of(error, distribution, modules)
    if culprit is not None:
        return {"cause": f"{cause}; the failure is in {culprit}, not in {distribution}", "fix": f"{culprit.advice}."}
    block = "" if distribution == "ort-py-core" else f", or leave it out with {BLOCK}={distribution}"
    return {"cause": cause, "fix": f"Update or reinstall {distribution}{block}."}


def _first_line(error: BaseException) -> str:
    cause = root_cause(error)
    text = describe(error).splitlines()[0]
    return text if cause is error else f"{text} ({describe(cause).splitlines()[0]})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
