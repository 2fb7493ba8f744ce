"""Tests of `ort_py_onednn.binding.resident`: what opening the library leaves in memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ort_py_onednn.binding.resident import release

_CODE = """
import re
from ort_py_onednn.binding.library import open_library
found = open_library()
resident, rights = 0, ""
with open("/proc/self/smaps") as file:
    for line in file:
        if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
            rights = line.split()[1] if "dnnl" in line else ""
        elif rights == "r-xp" and line.startswith("Rss:"):
            resident += int(line.split()[1])
print(resident, found.c.dnnl_version().major)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says which pages are in memory")
def test_little_of_the_library_is_in_memory_before_it_is_used() -> None:
    """It was a quarter of its 40 MB."""
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, check=True)
    kib, version = done.stdout.split()
    assert int(kib) < 4096
    assert version == "3"


def test_a_file_that_is_not_mapped_has_nothing_to_give_back() -> None:
    release("/absent/libdnnl.so.3")
