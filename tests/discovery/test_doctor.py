"""``ort-py doctor``: whatever a provider does to its process, it is named, with its cause and what to do.

Each case installs one distribution that is broken in its own way beside one that works, and asks for the report.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest

from .fake_site import FakeSite, plugin_source

# Processes of their own for each provider; see `core/tests/inspection/diagnosis` for the parts.
pytestmark = pytest.mark.slow

NAME, GOOD = "BadExecutionProvider", "GoodExecutionProvider"
LIMIT = 8.0
"""Seconds a provider may take here: what hangs, hangs as long."""

DIES_IN_RUN = plugin_source(NAME).replace(
    "lambda ctx: lambda x: np.maximum(x, 0)", "lambda ctx: lambda x: __import__('os')._exit(9)"
)
WRONG = plugin_source(NAME).replace("np.maximum(x, 0)", "np.maximum(x, 0) + 1")
RAISES_IN_RUN = plugin_source(NAME).replace("np.maximum(x, 0)", "1 / 0")


@dataclass(frozen=True)
class Case:
    """A defect of a plug-in, and the message of the report."""

    plugin: str
    verdict: str
    stage: str
    cause: str
    fix: str


CASES = {
    "ends the process while imported": Case(
        "import os; os._exit(7)",
        "crashed",
        "import",
        "it ended the process with the exit code 7",
        "Reinstall or update",
    ),
    "segmentation fault while imported": Case(
        "import faulthandler; faulthandler._sigsegv()",
        "crashed",
        "import",
        "SIGSEGV" if os.name == "posix" else "it ended the process with",
        "ORT_PY_BLOCK_PROVIDERS=pkg-bad",
    ),
    "hangs while imported": Case(
        "import time; time.sleep(600)",
        "hung",
        "import",
        f"it did not return within {LIMIT:g} s while being imported",
        "ORT_PY_BLOCK_PROVIDERS=pkg-bad",
    ),
    "raises while imported": Case(
        "import a_module_nobody_has",
        "broken",
        "probe",
        "No module named 'a_module_nobody_has'",
        "'a_module_nobody_has'",
    ),
    "written for another version": Case(
        plugin_source(NAME, extra="api_range = ApiRange(77, 78)"),
        "incompatible",
        "probe",
        "contract version 77 to 78",
        "pip install --upgrade ort-py-core",
    ),
    "lacks a library": Case(
        plugin_source(NAME, probe="return Availability(False, 'libbad.so.3 is missing', 'pip install libbad')"),
        "unavailable",
        "probe",
        "libbad.so.3 is missing",
        "pip install libbad",
    ),
    "ends the process in a run": Case(
        DIES_IN_RUN, "crashed", "run", "the exit code 9 while running a small model", "Reinstall or update"
    ),
    "raises in a run": Case(RAISES_IN_RUN, "broken", "run", "division by zero", "ORT_PY_BLOCK_PROVIDERS=pkg-bad"),
    "imports a package that is too old": Case(
        "from numpy import a_name_of_a_later_version",
        "broken",
        "probe",
        "cannot import name 'a_name_of_a_later_version' from 'numpy'",
        f"Update or reinstall numpy ({np.__version__} is installed), which pkg-bad uses",
    ),
    "uses a package that is too old": Case(
        plugin_source(NAME).replace("np.maximum(x, 0)", "np.a_name_of_a_later_version(x)"),
        "broken",
        "run",
        f"the failure is in numpy {np.__version__}, not in pkg-bad",
        f"Update or reinstall numpy ({np.__version__} is installed).",
    ),
    "computes wrong numbers": Case(WRONG, "wrong", "run", "Relu differs by 1", "report it to its maintainers"),
    "crashes when the process ends": Case(
        "import atexit, os; atexit.register(lambda: os._exit(5))\n" + plugin_source(NAME),
        "crashed",
        "exit",
        "the exit code 5 while leaving the process",
        "Reinstall or update",
    ),
}


def doctor(site: FakeSite, *arguments: str, **variables: str) -> tuple[int, Any]:
    """The command's exit code and its report; only the providers of the site are looked at."""
    others = "ort-py-cpu,ort-py-onednn,ort-py-openvino"
    environment = {name: text for name, text in os.environ.items() if not name.startswith("ORT_PY_")}
    environment |= {"ORT_PY_BLOCK_PROVIDERS": others} | variables
    environment["PYTHONPATH"] = os.pathsep.join([str(site.folder), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "ort_py.cli", "doctor", "--json", "--timeout", f"{LIMIT:g}", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def one(report: Any, name: str) -> Any:
    """The report's part about a provider."""
    return next(provider for provider in report["providers"] if provider["name"] == name)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_broken_provider_is_named(site: FakeSite, case: Case) -> None:
    """Verdict, stage, cause and fix say what happened; the provider beside it is found usable all the same."""
    site.install("pkg-bad", {"bad/__init__.py": "", "bad/plugin.py": case.plugin}, {NAME: "bad.plugin"})
    code, report = doctor(site)
    bad = one(report, NAME)
    assert (bad["verdict"], bad["stage"]) == (case.verdict, case.stage)
    assert case.cause in bad["cause"]
    assert case.fix in bad["fix"]
    assert (bad["distribution"], bad["version"], bad["entry_point"]) == ("pkg-bad", "1.5", "bad.plugin")
    assert one(report, GOOD)["verdict"] == "usable"
    assert code == 1


def test_the_output_of_a_crash_shows_the_innermost_call(site: FakeSite) -> None:
    """A report that is longer than what is kept loses its end, which is the outermost calls."""
    calls = "import faulthandler\n\ndef innermost():\n    faulthandler._sigsegv()\n\n"
    calls += "def deep(depth):\n    deep(depth - 1) if depth else innermost()\n\ndeep(60)\n"
    site.install("pkg-bad", {"bad/__init__.py": "", "bad/plugin.py": calls}, {NAME: "bad.plugin"})
    output = one(doctor(site)[1], NAME)["output"]
    assert output.startswith(("Fatal Python error", "Windows fatal exception"))
    assert "in innermost" in output


def test_an_engine_that_cannot_be_loaded_is_named(site: FakeSite) -> None:
    """A package that the core needs and that is too old is the fault of no provider."""
    (site.folder / "sitecustomize.py").write_text("import onnx.helper; del onnx.helper.make_tensor_value_info")
    code, report = doctor(site)
    good = one(report, GOOD)
    assert (code, good["verdict"]) == (1, "broken")
    assert "make_tensor_value_info" in good["cause"]
    assert f"the failure is in onnx {onnx.__version__}, not in " in good["cause"]
    assert good["fix"] == f"Update or reinstall onnx ({onnx.__version__} is installed)."


def test_a_provider_that_works(site: FakeSite) -> None:
    """Its files are those of the record, it ran a model, and the answer was exact."""
    code, report = doctor(site)
    good = one(report, GOOD)
    assert (code, good["verdict"]) == (0, "usable")
    assert good["run"]["nodes"] == {GOOD: 1}
    assert good["run"]["max_error"] == 0
    assert good["files"]["checked"] > 3
    assert good["files"]["modified"] == good["files"]["missing"] == []
    assert set(good["stages_ms"]) == {"import", "probe", "session", "run"}


def test_changed_files_are_named(site: FakeSite) -> None:
    """A file that is not what was installed, and one that is gone, make an installation suspect though it works."""
    plugin = site.folder / "good" / "plugin.py"
    plugin.write_text(plugin.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    (site.folder / "good" / "__init__.py").unlink()
    code, report = doctor(site)
    good = one(report, GOOD)
    assert (code, good["verdict"], good["usable"]) == (1, "modified", True)
    assert "good/plugin.py was changed after it was installed" in good["cause"]
    assert "good/__init__.py is missing" in good["cause"]
    assert "pip install --force-reinstall --no-deps pkg-good==1.5" in good["fix"]


def test_required_providers_decide(site: FakeSite) -> None:
    """With --require, what else is broken does not count; what is required and not usable has a code of its own."""
    site.install("pkg-bad", {"bad.py": "raise RuntimeError('no')"}, {NAME: "bad"})
    assert doctor(site, "--require", GOOD)[0] == 0
    code, report = doctor(site, "--require", GOOD, "--require", NAME, "--require", "CUDAExecutionProvider")
    assert code == 3
    assert report["required_missing"].keys() == {NAME, "CUDAExecutionProvider"}
    assert "RuntimeError: no" in report["required_missing"][NAME]
    assert report["required_missing"]["CUDAExecutionProvider"] == "not installed"


def test_children_of_a_hanging_provider_end_with_it(site: FakeSite) -> None:
    """Processes that a plug-in started are ended too, and do not delay the report."""
    plugin = "import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    site.install("pkg-bad", {"bad.py": plugin + "time.sleep(600)"}, {NAME: "bad"})
    assert one(doctor(site)[1], NAME)["verdict"] == "hung"


def test_what_a_plugin_prints_is_kept_apart(site: FakeSite) -> None:
    """The report stays JSON whatever a plug-in prints; where it crashed, its last words are in the report."""
    site.install("pkg-bad", {"bad.py": "import os; print('last words', flush=True); os._exit(1)"}, {NAME: "bad"})
    assert "last words" in one(doctor(site)[1], NAME)["output"]


def test_two_distributions_of_one_name(site: FakeSite) -> None:
    """Both are tried by address; a conflict is what is wrong with them."""
    for module in ("bad_one", "bad_two"):
        site.install(f"pkg-{module}", {f"{module}.py": plugin_source(NAME)}, {NAME: module})
    code, report = doctor(site)
    rivals = [provider for provider in report["providers"] if provider["name"] == NAME]
    assert code == 1
    assert [rival["verdict"] for rival in rivals] == ["conflict", "conflict"]
    assert all("claimed by two distributions" in rival["cause"] for rival in rivals)


def test_blocked_providers_are_left_alone(site: FakeSite) -> None:
    """A provider blocked by the environment is not even imported, and does not count as a failure."""
    site.install("pkg-bad", {"bad.py": "import os; os._exit(1)"}, {NAME: "bad"})
    blocked = "ort-py-cpu,ort-py-onednn,ort-py-openvino,pkg-bad"
    code, report = doctor(site, ORT_PY_BLOCK_PROVIDERS=blocked)
    assert (code, one(report, NAME)["verdict"]) == (0, "blocked")
