"""Facts about the machine, read from a file system of the test's own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ort_py.inspection.diagnosis.machine import machine_facts


def test_the_processor(tmp_path: Path) -> None:
    """Its name, and of its flags those that numeric libraries look at."""
    (tmp_path / "proc").mkdir()
    text = "processor : 0\nmodel name : Some CPU @ 2 GHz\nflags : fpu avx2 fma lm avx512_vnni amx_tile nx\n"
    (tmp_path / "proc" / "cpuinfo").write_text(text + "processor : 1\n", encoding="utf-8")
    facts = machine_facts({}, tmp_path)
    assert facts["processor"] == "Some CPU @ 2 GHz"
    assert facts["features"] == ["avx2", "fma", "avx512_vnni", "amx_tile"]


def test_a_system_that_does_not_tell(tmp_path: Path) -> None:
    facts = machine_facts({}, tmp_path)
    assert facts["features"] == []
    assert facts["cgroup"] == {"processors": None, "memory": []}


def test_threads_and_why(tmp_path: Path) -> None:
    """The bound that decides is named."""
    facts = machine_facts({"ORT_PY_NUM_THREADS": "1"}, tmp_path)
    assert facts["threads"] == {"count": 1, "reason": "ORT_PY_NUM_THREADS=1"} or facts["threads"]["count"] == 1
    assert facts["environment"] == {"ORT_PY_NUM_THREADS": "1"}


def test_the_cache_is_looked_at_and_not_made(tmp_path: Path) -> None:
    """A missing folder is not created. A private one is distinguished from one that others can write to."""
    folder = tmp_path / "cache"
    assert machine_facts({"ORT_PY_CACHE": str(folder)}, tmp_path)["cache"]["state"] == "not made yet"
    assert not folder.exists()
    folder.mkdir(mode=0o700)
    assert machine_facts({"ORT_PY_CACHE": str(folder)}, tmp_path)["cache"]["state"] == "private"
    assert machine_facts({"ORT_PY_CACHE": "off"}, tmp_path)["cache"]["state"] == "off"


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a folder's mode says nothing of who may write to it")
def test_a_cache_that_others_can_write_to(tmp_path: Path) -> None:
    """It is not used, and the report says so."""
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    cache = machine_facts({"ORT_PY_CACHE": str(folder)}, tmp_path)["cache"]
    assert cache["state"] == "not private"
    assert "others can write to it" in cache["note"]


def test_a_size_that_is_none(tmp_path: Path) -> None:
    """A malformed environment variable is in the report, not an end of it."""
    cache = machine_facts({"ORT_PY_CACHE": str(tmp_path), "ORT_PY_CACHE_SIZE": "much"}, tmp_path)["cache"]
    assert cache["state"] == "unusable"
    assert "ORT_PY_CACHE_SIZE" in cache["note"]


def test_it_is_plain_data() -> None:
    facts = json.loads(json.dumps(machine_facts()))
    assert facts["threads"]["count"] >= 1
    assert facts["packages"]["numpy"]
