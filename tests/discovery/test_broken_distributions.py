"""A broken distribution breaks nothing else, and asking for its provider shows its own exception.

Each case installs one distribution that is broken in its own way beside one that works, and asks a fresh interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from .fake_site import FakeSite, plugin_source

# A fresh interpreter and a session each; the quick tier has the same cases in `core/tests/discovery`.
pytestmark = pytest.mark.slow

NAME = "BadExecutionProvider"

ASK = """
import numpy as np
import ort_py
from onnx import parser

TEXT = '''<ir_version: 10, opset_import: ["" : 21]> g (float[3] x) => (float[3] y) { y = Relu(x) }'''
model = parser.parse_model(TEXT).SerializeToString()
result = {"installed": ort_py.get_installed_providers(), "available": ort_py.get_available_providers()}
with ort_py.InferenceSession(model, providers=["GoodExecutionProvider"]) as session:
    (y,) = session.run(None, {"x": np.array([-1, 0, 2], np.float32)})
    result["output"] = y.tolist()
    result["placement"] = session.placement.counts()
result["states"] = {
    record.name: [record.state.value, record.reason] for record in ort_py.get_provider_records()
}
try:
    ort_py.InferenceSession(model, providers=["BadExecutionProvider", "GoodExecutionProvider"])
except ort_py.OrtPyError as error:
    result["error"] = [type(error).__name__, str(error)]
    result["cause"] = [type(error.__cause__).__name__, str(error.__cause__)]
"""


@dataclass(frozen=True)
class Case:
    """A defect of a plug-in, and the message that the user must read."""

    plugin: str
    state: str
    error: str
    cause: str
    text: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)


CASES = {
    "import error": Case(
        "import a_module_nobody_has\n", "broken", "PluginError", "ModuleNotFoundError", ("a_module_nobody_has",)
    ),
    "missing shared library": Case(
        'import ctypes\nctypes.CDLL("libort_py_nobody_has_this.so.9")\n',
        "broken",
        "PluginError",
        "OSError",
        ("importing bad.plugin raised OSError", "libort_py_nobody_has_this.so.9"),
    ),
    "exit at import": Case(
        'raise SystemExit("licence expired")\n', "broken", "PluginError", "SystemExit", ("licence expired",)
    ),
    "syntax error": Case("def broken(:\n", "broken", "PluginError", "SyntaxError", ("importing bad.plugin raised",)),
    "misspelt hook": Case(
        plugin_source(NAME).replace("def ort_py_providers", "def ort_py_provider"),
        "broken",
        "PluginError",
        "PluginError",
        ("'ort_py_provider'", "Did you mean 'ort_py_providers'?"),
    ),
    "no provider of its name": Case(
        plugin_source("OtherExecutionProvider"),
        "broken",
        "PluginError",
        "PluginError",
        ("registers 'OtherExecutionProvider', none of which is called 'BadExecutionProvider'",),
    ),
    "forgotten method": Case(
        plugin_source(NAME).replace("def probe", "def prob"), "broken", "PluginError", "TypeError", ("probe",)
    ),
    "contract version too new": Case(
        plugin_source(NAME, extra="api_range = ApiRange(77, 78)"),
        "incompatible",
        "PluginError",
        "NoneType",
        ("contract version 77 to 78", "this core supports 1", "pip install --upgrade ort-py-core"),
    ),
    "probe raises": Case(
        plugin_source(NAME, probe='raise RuntimeError("driver says no")'),
        "broken",
        "PluginError",
        "RuntimeError",
        ("its probe() raised RuntimeError: driver says no",),
    ),
    "probe hangs": Case(
        plugin_source(NAME, probe="import time; time.sleep(600)"),
        "broken",
        "PluginError",
        "TimeoutError",
        ("probe() of BadExecutionProvider did not return within 0.2 s",),
        {"ORT_PY_PROBE_TIMEOUT": "0.2"},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_broken_distribution(site: FakeSite, case: Case) -> None:
    """`import ort_py` and the other provider work; the broken one has a state, a reason, and its own exception."""
    site.install("pkg-bad", {"bad/__init__.py": "", "bad/plugin.py": case.plugin}, {NAME: "bad.plugin"})
    found = site.run(ASK, **case.variables)
    assert {NAME, "GoodExecutionProvider"} <= set(found["installed"])
    assert "GoodExecutionProvider" in found["available"]
    assert NAME not in found["available"]
    assert found["output"] == [0, 0, 2]
    assert found["placement"] == {"GoodExecutionProvider": 1}
    state, reason = found["states"][NAME]
    assert state == case.state
    kind, text = found["error"]
    assert (kind, found["cause"][0]) == (case.error, case.cause)
    assert "distribution pkg-bad 1.5" in text
    assert reason in text
    for part in case.text:
        assert part in text


def test_a_plugin_that_is_not_there(site: FakeSite) -> None:
    """An entry point may lead nowhere, as after half an uninstallation."""
    site.install("pkg-bad", {}, {NAME: "bad_and_gone.plugin"})
    found = site.run(ASK)
    assert found["output"] == [0, 0, 2]
    assert found["states"][NAME][0] == "broken"
    assert found["cause"] == ["ModuleNotFoundError", "No module named 'bad_and_gone'"]


def test_two_distributions_of_one_name(site: FakeSite) -> None:
    """Neither is used by the bare name; the error names both, and each one works by its address."""
    for module in ("bad_one", "bad_two"):
        files = {f"{module}/__init__.py": "", f"{module}/plugin.py": plugin_source(NAME)}
        site.install(f"pkg-{module}", files, {NAME: f"{module}.plugin"})
    found = site.run(ASK)
    assert found["installed"].count(NAME) == 1
    assert NAME not in found["available"]
    assert found["output"] == [0, 0, 2]
    assert found["states"][NAME][0] == "conflict"
    kind, text = found["error"]
    assert kind == "ProviderNotAvailableError"
    assert "pkg-bad_one 1.5" in text
    assert "pkg-bad_two 1.5" in text
    addressed = ASK.replace(f'["{NAME}", ', f'["pkg-bad-two:{NAME}", ').replace(
        "    ort_py.InferenceSession(", "    result['names'] = ort_py.InferenceSession("
    )
    addressed = addressed.replace(
        '"GoodExecutionProvider"])\nexcept', '"GoodExecutionProvider"]).get_providers()\nexcept'
    )
    assert site.run(addressed)["names"] == [f"pkg-bad-two:{NAME}", "GoodExecutionProvider"]


def test_another_package_does_not_take_the_cpu_provider(site: FakeSite) -> None:
    """A distribution that claims CPUExecutionProvider disables neither ort-py-cpu nor itself by address."""
    cpu = "CPUExecutionProvider"
    ours = {"ours_cpu.py": plugin_source(cpu)}
    site.install("ort-py-cpu", ours, {cpu: "ours_cpu"})
    site.install("aaa-imposter", {"imposter.py": 'raise SystemExit("mine now")'}, {cpu: "imposter"})
    found = site.run(
        f"""
        import ort_py
        from ort_py.discovery import select_providers
        records = [[r.distribution, r.state.value] for r in ort_py.get_provider_records() if r.name == "{cpu}"]
        result = [sorted(records), select_providers(["{cpu}"]).selected[-1].record.distribution]
        """
    )
    assert found == [[["aaa-imposter", "yielded"], ["ort-py-cpu", "available"]], "ort-py-cpu"]


def test_metadata_that_cannot_be_read(site: FakeSite) -> None:
    """A damaged entry_points.txt costs its own distribution; asking for its provider mentions it."""
    site.install("pkg-bad", {"bad.py": ""}, {NAME: "bad"})
    (site.folder / "pkg_bad-1.5.dist-info" / "entry_points.txt").write_text(f"[ort_py.providers]\n{NAME} : bad\n")
    found = site.run(ASK.replace('result["states"][', "["))
    assert found["output"] == [0, 0, 2]
    assert NAME not in found["installed"]
    kind, text = found["error"]
    assert kind == "ProviderNotFoundError"
    assert "entry points of pkg-bad cannot be parsed" in text


def test_blocked(site: FakeSite) -> None:
    """A blocked provider is not even imported; a session that names it gets the other one, with a warning."""
    site.install("pkg-bad", {"bad.py": 'raise SystemExit("imported")'}, {NAME: "bad"})
    code = """
        import sys, warnings
        import ort_py
        from ort_py.discovery import select_providers
        with warnings.catch_warnings(record=True) as caught:
            selection = select_providers(["BadExecutionProvider", "GoodExecutionProvider"])
        states = {record.name: record.state.value for record in ort_py.get_provider_records()}
        result = [selection.names, str(caught[0].message), states["BadExecutionProvider"], "bad" in sys.modules]
        """
    for value in (NAME, "pkg-bad", "pkg_bad"):
        names, warning, state, imported = site.run(code, ORT_PY_BLOCK_PROVIDERS=value)
        assert names == ["GoodExecutionProvider"]
        assert f"blocked by the environment variable ORT_PY_BLOCK_PROVIDERS={value}" in warning
        assert (state, imported) == ("blocked", False)
    assert site.run(code, ORT_PY_ALLOW_PROVIDERS="GoodExecutionProvider")[2:] == ["blocked", False]


def test_a_broken_plugin_without_a_provider(site: FakeSite) -> None:
    """The group ort_py.plugins is guarded likewise: sessions work, and the log names the plug-in."""
    site.install("pkg-rules", {"rules.py": 'raise OSError("librules.so")'}, {"rules": "rules"}, "ort_py.plugins")
    code = (
        """
import logging
records = []
logging.getLogger("ort_py").addHandler(type("Keep", (logging.Handler,), {"emit": lambda _, r: records.append(r)})())
"""
        + ASK
        + "\nresult['log'] = [record.getMessage() for record in records]"
    )
    found = site.run(code)
    assert found["output"] == [0, 0, 2]
    assert any(
        "Plug-in 'pkg-rules:rules' broke while being loaded: OSError: librules.so" in line for line in found["log"]
    )
