"""Listing providers loads no more than the question needs."""

from __future__ import annotations

from .fake_site import FakeSite

AFTER = """
import sys, threading
import ort_py
before = threading.active_count()
answer = ort_py.{question}()
modules = [name for name in ("good", "good.plugin", "good.vendor", "onnx") if name in sys.modules]
result = ["GoodExecutionProvider" in answer, modules, threading.active_count() - before]
"""


def test_installed_imports_no_plugin(site: FakeSite) -> None:
    """Metadata only: no module of the provider is loaded, no thread is started."""
    assert site.run(AFTER.format(question="get_installed_providers")) == [True, [], 0]


def test_all_imports_no_plugin(site: FakeSite) -> None:
    assert site.run(AFTER.format(question="get_all_providers")) == [True, [], 0]


def test_available_imports_the_light_plugin_only(site: FakeSite) -> None:
    """The vendor's library waits for the first session; no thread is left behind."""
    found = site.run(AFTER.format(question="get_available_providers"))
    assert found == [True, ["good", "good.plugin"], 0]


def test_installed_starts_no_thread_at_all(site: FakeSite) -> None:
    code = """
    import threading
    import ort_py
    started = []
    threading.Thread.start = lambda self: started.append(self.name)
    ort_py.get_installed_providers()
    ort_py.get_all_providers()
    result = started
    """
    assert site.run(code) == []


def test_import_reads_nothing(site: FakeSite) -> None:
    """`import ort_py` looks for no distribution."""
    code = """
    import sys
    import ort_py
    result = [name for name in ("importlib.metadata", "pluggy", "ort_py.discovery", "good") if name in sys.modules]
    """
    assert site.run(code) == []


def test_a_copy_on_the_path_counts_once(site: FakeSite) -> None:
    """The same folder twice on sys.path, as from PYTHONPATH and a .pth file, is not a conflict."""
    code = f"""
    import sys
    sys.path.append({str(site.folder)!r} + "/.")
    import ort_py
    result = [[r.name, r.state.value] for r in ort_py.get_provider_records() if r.name == "GoodExecutionProvider"]
    """
    assert site.run(code) == [["GoodExecutionProvider", "available"]]


def test_a_forked_child_can_ask(site: FakeSite) -> None:
    """A child forked while another thread is loading providers is not locked out."""
    site.install(
        "pkg-slow", {"slow.py": "import time\ntime.sleep(1)\nraise ImportError"}, {"SlowExecutionProvider": "slow"}
    )
    code = """
    import os, threading, time, warnings
    import ort_py
    warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forking with threads: that is the point
    thread = threading.Thread(target=ort_py.get_available_providers)
    thread.start()
    time.sleep(0.3)
    if hasattr(os, "fork"):
        child = os.fork()
        if child == 0:
            os._exit(0 if "GoodExecutionProvider" in ort_py.get_installed_providers() else 1)
        result = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    else:
        result = 0
    thread.join()
    """
    assert site.run(code) == 0
