"""Tests of `ort_py_onednn.binding.resident`: what opening the library leaves in memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ort_py_onednn.binding.resident import release

_COUNT = """
import re
def resident():
    kib, rights = 0, ""
    with open("/proc/self/smaps") as file:
        for line in file:
            if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
                rights = line.split()[1] if "dnnl" in line else ""
            elif rights == "r-xp" and line.startswith("Rss:"):
                kib += int(line.split()[1])
    return kib
"""

_OPENED = """
from ort_py_onednn.binding.library import open_library
found = open_library()
print(resident(), found.c.dnnl_version().major)
"""

_PLANNED = """
import numpy as np
from ort_py_onednn.binding import resident as code
from ort_py_onednn.binding.library import open_library
from providers.onednn.tests.models import model, node, open_session
feeds = {"x": np.ones((64, 80), np.float32)}
session = open_session(model([node("Softmax", "x", "y")], feeds))
(first,) = session.run(None, feeds)
before = resident()
code.release(open_library().path)
after = resident()
(second,) = session.run(None, feeds)
print(before, after, (first == second).all())
"""


def answer(code: str) -> str:
    """Return what code prints in a fresh interpreter."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says which pages are in memory")
def test_little_of_the_library_is_in_memory_before_it_is_used() -> None:
    """It was a quarter of its 40 MB."""
    kib, version = answer(_COUNT + _OPENED).split()
    assert int(kib) < 4096
    assert version == "3"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says which pages are in memory")
def test_code_that_was_used_is_given_back_and_mapped_again() -> None:
    before, after, is_equal = answer(_COUNT + _PLANNED).split()
    assert int(after) < int(before) / 4
    assert is_equal == "True"


def test_a_file_that_is_not_mapped_has_nothing_to_give_back() -> None:
    release("/absent/libdnnl.so.3")
