"""Threads are honest: the smallest of affinity, cgroup quota, environment and option, with the reason."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from ort_py.platform import processors as module
from ort_py.platform.processors import ThreadCount, processor_facts, thread_count


@pytest.fixture(autouse=True)
def many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 64 processors."""
    monkeypatch.setattr(module, "_processors", lambda: ThreadCount(64, "64 processors"))


def v2(root: Path, text: str) -> Path:
    """A file system with a control group of version 2."""
    group = root / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "cpu.max").write_text(text)
    return root


def v1(root: Path, quota: str, period: str) -> Path:
    """A file system with a control group of version 1."""
    group = root / "sys/fs/cgroup/cpu"
    group.mkdir(parents=True)
    (group / "cpu.cfs_quota_us").write_text(quota)
    (group / "cpu.cfs_period_us").write_text(period)
    return root


def test_nothing_said_means_every_processor(tmp_path: Path) -> None:
    """Without quota, variables and option the processors decide."""
    assert thread_count(0, {}, tmp_path) == ThreadCount(64, "64 processors")


@pytest.mark.parametrize(
    ("text", "count"), [("200000 100000\n", 2), ("150000 100000", 2), ("50000 100000", 1), ("max 100000", 64)]
)
def test_a_cgroup_v2_quota_counts(tmp_path: Path, text: str, count: int) -> None:
    """Processors' worth of time, rounded up, at least one."""
    assert thread_count(0, {}, v2(tmp_path, text)).count == count


@pytest.mark.parametrize(
    ("quota", "period", "count"), [("400000", "100000", 4), ("-1", "100000", 64), ("100", "0", 64), ("x", "1", 64)]
)
def test_a_cgroup_v1_quota_counts(tmp_path: Path, quota: str, period: str, count: int) -> None:
    """The two files of version 1 count; malformed content sets no bound."""
    assert thread_count(0, {}, v1(tmp_path, quota, period)).count == count


@pytest.mark.parametrize("text", ["", "nonsense", "100000", "100000 0", "a b"])
def test_an_unreadable_quota_is_none(tmp_path: Path, text: str) -> None:
    """A file that cannot be understood bounds nothing and breaks nothing."""
    assert thread_count(0, {}, v2(tmp_path, text)).count == 64


@pytest.mark.parametrize(
    ("environment", "count", "reason"),
    [
        ({"OMP_NUM_THREADS": "3"}, 3, "OMP_NUM_THREADS=3"),
        ({"OMP_NUM_THREADS": "8,2,1"}, 8, "OMP_NUM_THREADS=8"),
        ({"OMP_NUM_THREADS": "8", "ORT_PY_NUM_THREADS": "5"}, 5, "ORT_PY_NUM_THREADS=5"),
        ({"OMP_NUM_THREADS": "0"}, 64, "64 processors"),
        ({"OMP_NUM_THREADS": "many"}, 64, "64 processors"),
        ({"OMP_NUM_THREADS": "²"}, 64, "64 processors"),
        ({"OMP_NUM_THREADS": "-2"}, 64, "64 processors"),
    ],
)
def test_variables_bound_the_count(tmp_path: Path, environment: dict[str, str], count: int, reason: str) -> None:
    """The smallest positive number wins; what is not a number is passed over."""
    assert thread_count(0, environment, tmp_path) == ThreadCount(count, reason)


def test_an_option_lowers_but_never_raises(tmp_path: Path) -> None:
    """Asking for more threads than there are processors gives the processors."""
    assert thread_count(3, {}, tmp_path) == ThreadCount(3, "intra_op_num_threads=3")
    assert thread_count(100, {}, tmp_path).count == 64
    assert thread_count(-1, {}, tmp_path).count == 64


def test_the_smallest_bound_is_the_reason(tmp_path: Path) -> None:
    found = thread_count(6, {"OMP_NUM_THREADS": "5"}, v2(tmp_path, "400000 100000"))
    assert found == ThreadCount(4, "cgroup CPU quota of 4 in /sys/fs/cgroup")


def test_facts_are_those_of_the_first_processor(tmp_path: Path) -> None:
    """Names and values lose the blanks around them; another system has no such file."""
    assert processor_facts(tmp_path) == {}
    (tmp_path / "proc").mkdir()
    text = "vendor_id\t: Some\nmodel name\t: CPU @ 2: GHz\nflags\t: fpu avx2\n\nvendor_id\t: Other\n"
    (tmp_path / "proc/cpuinfo").write_text(text)
    assert processor_facts(tmp_path) == {"vendor_id": "Some", "model name": "CPU @ 2: GHz", "flags": "fpu avx2"}


@pytest.mark.parametrize(
    ("flags", "narrow", "wide"),
    [
        ("fpu smep sse4_1 avx avx2", 4e11, 2e11),
        ("avx2 avx512f avx512_vnni", 8e11, 2e11),
        ("avx512f avx512_vnni amx_bf16 amx_tile amx_int8", 4e12, 2e11),
        ("fpu sse4_1", 2e11, 2e11),
        ("", 4e12, 4e12),
    ],
)
def test_products_that_no_core_exceeds(flags: str, narrow: float, wide: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow numbers as fast as the instructions can, wide ones of 32 in a cycle; whatever can be where nothing is
    told."""
    monkeypatch.setattr(module, "processor_facts", lambda: {"flags": flags} if flags else {})
    found = [module.products_per_second.__wrapped__(bits) for bits in (8, 16, 32, 64)]
    assert found == [narrow, narrow, wide, wide]


@pytest.mark.parametrize(
    ("flags", "most"),
    [
        ("smep avx512f avx512_vnni amx_bf16 amx_tile", 2e11),
        ("avx512f avx512_vnni avx512_fp16 amx_bf16 amx_tile", 2e11),
        ("avx512_fp16 amx_fp16", 4e12),
        ("", 4e12),
    ],
)
def test_products_of_float16_have_instructions_of_their_own(
    flags: str, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units for other narrow numbers do not multiply them."""
    monkeypatch.setattr(module, "processor_facts", lambda: {"flags": flags} if flags else {})
    assert module.products_per_second.__wrapped__(16, halves=True) == most


def test_this_machine_does_not_exceed_its_bound() -> None:
    """A product of float32 matrices by NumPy, on all threads that it takes."""
    size = 512
    x = np.ones((size, size), np.float32)
    x @ x
    begun, worked = time.perf_counter(), time.process_time()
    for _ in range(8):
        x @ x
    seconds = max(time.perf_counter() - begun, time.process_time() - worked)
    assert 8 * size**3 / seconds < module.products_per_second(32)
