"""Native threads that are at work, or at rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ort_py.platform.thread_states import native_threads_rest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says what its threads do")

PROGRAM = """
import _thread, sys, time
from ort_py.platform.thread_states import native_threads_rest

ended = []

def work():
    end = time.monotonic() + 20
    while not ended and time.monotonic() < end:
        sum(range(200_000))

assert native_threads_rest()
if sys.argv[1] == "work":
    _thread.start_new_thread(work, ())  # threading does not know such a thread
else:
    _thread.start_new_thread(time.sleep, (20,))
time.sleep(0.1)
looks = [(time.sleep(0.01), native_threads_rest())[1] for _ in range(40)]
ended.append(True)
sys.exit(0 if all(looks) else 3)
"""


@pytest.mark.parametrize(("activity", "status"), [("work", 3), ("sleep", 0)])
def test_a_thread_that_python_does_not_know_is_seen(activity: str, status: int) -> None:
    """One that works is not at rest, one that sleeps is."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, activity], check=False, capture_output=True, timeout=60)
    assert done.returncode == status, done.stderr


def test_a_system_that_does_not_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is None."""
    monkeypatch.setattr("ort_py.platform.thread_states._TASKS", Path("/proc/self/no-such-folder"))
    assert native_threads_rest() is None
