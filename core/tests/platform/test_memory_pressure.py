"""Memory of control groups, read from a fake tree, and what is done when it runs short."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from core.tests.driving import drive
from ort_py.errors import OptionError
from ort_py.execution.frame import WatchedPool
from ort_py.platform import memory_pressure
from ort_py.platform.control_groups import LimitedGroup, limited_groups
from ort_py.platform.memory_pressure import MemoryPressure, pressure_of_process, threshold_of

MIB = 1 << 20
UNIFIED = "41 31 0:38 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
VERSION_1 = "36 31 0:33 / /sys/fs/cgroup/memory rw shared:14 - cgroup cgroup rw,memory\n"


def write(root: Path, files: dict[str, str]) -> Path:
    """Files by path."""
    for path, text in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return root


def unified(root: Path, used: int, limit: str = str(100 * MIB), **files: str) -> Path:
    """A process in the group ``/app`` of version 2."""
    group = "sys/fs/cgroup/app"
    named = {f"{group}/memory.{name}": text for name, text in files.items()}
    return write(
        root,
        {
            "proc/self/cgroup": "0::/app\n",
            "proc/self/mountinfo": UNIFIED,
            f"{group}/memory.current": f"{used}\n",
            f"{group}/memory.max": f"{limit}\n",
            f"{group}/memory.high": "max\n",
            **named,
        },
    )


class Member:
    """Counts how often it is asked to give back."""

    def __init__(self) -> None:
        self.trims = 0

    def trim(self) -> None:
        """Trim like a session."""
        self.trims += 1


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def watched(root: Path, **arguments: Any) -> tuple[MemoryPressure, Member, Clock]:
    """A watcher with one member."""
    clock, member = Clock(), Member()
    pressure = MemoryPressure(limited_groups(root), clock=clock, **arguments)
    pressure.join(member)
    return pressure, member, clock


# -- what the groups say -------------------------------------------------------------------------------------------


def test_no_files_and_no_limits_mean_no_groups(tmp_path: Path) -> None:
    """Other systems, and groups that may take all there is."""
    assert limited_groups(tmp_path) == []
    assert limited_groups(unified(tmp_path, 5, "max")) == []


@pytest.mark.parametrize(("high", "limit"), [("max", 100), (f"{60 * MIB}", 60), (f"{200 * MIB}", 100)])
def test_the_lower_of_both_bounds_counts(tmp_path: Path, high: str, limit: int) -> None:
    """Above ``high`` the kernel slows the group down, above ``max`` it kills."""
    (group,) = limited_groups(unified(tmp_path, 30 * MIB, high=high))
    found = group.read()
    assert found is not None
    assert (found.limit, found.used, found.group) == (limit * MIB, 30 * MIB, "/sys/fs/cgroup/app")


def test_pages_that_can_be_dropped_do_not_count(tmp_path: Path) -> None:
    """A container that has read large files is full, and has memory."""
    (group,) = limited_groups(unified(tmp_path, 99 * MIB, stat=f"anon 5\ninactive_file {80 * MIB}\nactive_file 3\n"))
    found = group.read()
    assert found is not None
    assert found.used == 19 * MIB


def test_groups_above_count_too(tmp_path: Path) -> None:
    """A pod's limit stands in the group above the container's."""
    root = unified(tmp_path, 5, "max")
    write(root, {"sys/fs/cgroup/memory.max": f"{MIB}\n", "sys/fs/cgroup/memory.current": f"{MIB}\n"})
    (group,) = limited_groups(root)
    found = group.read()
    assert found is not None
    assert (found.group, found.share) == ("/sys/fs/cgroup", 1.0)


def test_version_1(tmp_path: Path) -> None:
    """The same facts under other names; the number that means no limit is none."""
    place = "sys/fs/cgroup/memory/app/memory"
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/app\n",
            "proc/self/mountinfo": VERSION_1,
            f"{place}.limit_in_bytes": f"{10 * MIB}\n",
            f"{place}.usage_in_bytes": f"{8 * MIB}\n",
            f"{place}.stat": f"inactive_file 0\ntotal_inactive_file {2 * MIB}\n",
            f"{place}.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "5\n",
        },
    )
    (group,) = limited_groups(root)
    found = group.read()
    assert found is not None
    assert (found.limit, found.used, found.failures) == (10 * MIB, 6 * MIB, 3)


@pytest.mark.parametrize("text", ["", "nonsense", "some avg10=x", "full avg10=50.0", "some total=3"])
def test_what_cannot_be_understood_is_no_pressure(tmp_path: Path, text: str) -> None:
    """Kernels without these files, and with other ones."""
    (group,) = limited_groups(unified(tmp_path, MIB, pressure=text, events=text, stat=text))
    found = group.read()
    assert found is not None
    assert (found.stalled, found.failures, found.used) == (0.0, 0, MIB)


def test_a_limit_that_goes_away(tmp_path: Path) -> None:
    """A group whose limit was removed has no effect."""
    (group,) = limited_groups(unified(tmp_path, MIB))
    unified(tmp_path, MIB, "max")
    assert isinstance(group, LimitedGroup)
    assert group.read() is None


# -- what is done --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "files", "reason"),
    [
        (95, {}, "uses 95 of 100 MiB"),
        (60, {"pressure": "some avg10=12.50 avg60=3 avg300=1 total=9\nfull avg10=0\n"}, "waits for memory 12.5 %"),
        (10, {"events": "low 0\nhigh 0\nmax 4\noom 1\noom_kill 0\n"}, "has run out of memory"),
    ],
)
def test_pressure_trims(tmp_path: Path, used: int, files: dict[str, str], reason: str, caplog: Any) -> None:
    """Too near to the limit, tasks that wait for memory, an allocation that failed since the last look."""
    pressure, member, _ = watched(unified(tmp_path, MIB))
    unified(tmp_path, used * MIB, **files)
    pressure.check()
    assert member.trims == pressure.trims == 1
    assert f"memory is short: /sys/fs/cgroup/app {reason}" in caplog.text


@pytest.mark.parametrize(
    ("used", "files"),
    [
        (89, {}),
        (10, {"pressure": "some avg10=80.00 avg60=3\n"}),
        (50, {"events": "high 3\nmax 4\noom 0\n"}),
    ],
)
def test_no_pressure_trims_nothing(tmp_path: Path, used: int, files: dict[str, str]) -> None:
    """Below the threshold; the machine's stalls in a group that is nearly empty; limits met by droppable pages."""
    pressure, member, _ = watched(unified(tmp_path, MIB))
    unified(tmp_path, used * MIB, **files)
    pressure.check()
    assert member.trims == 0


def test_old_failures_are_no_news(tmp_path: Path) -> None:
    """Counters go on from where they were when the process began."""
    pressure, member, _ = watched(unified(tmp_path, MIB, events="oom 7\n"))
    pressure.check()
    assert member.trims == 0


def test_it_is_looked_at_once_a_second(tmp_path: Path) -> None:
    """Earlier calls read no file."""
    root = unified(tmp_path, MIB)
    pressure, member, clock = watched(root)
    pressure.check()
    unified(root, 95 * MIB)
    clock.now += 0.9
    pressure.check()
    assert member.trims == 0
    assert pressure.due == 101.0
    clock.now += 0.1
    pressure.check()
    assert member.trims == 1


def test_trims_that_do_not_help_become_rare(tmp_path: Path) -> None:
    """The pause doubles up to five minutes, and begins again when there was memory in between."""
    root = unified(tmp_path, 95 * MIB)
    pressure, member, clock = watched(root)
    for _ in range(100):
        pressure.check()
        clock.now += 1
    assert member.trims == 4  # at 0, 10, 30 and 70 s
    unified(root, MIB)
    pressure.check()
    unified(root, 95 * MIB)
    clock.now += 5
    pressure.check()
    assert member.trims == 5


def test_one_that_fails_does_not_keep_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An allocator of a plug-in may raise anything; it is logged."""

    class Broken(Member):
        def trim(self) -> None:
            raise RuntimeError("lost")

    pressure, member, _ = watched(unified(tmp_path, 95 * MIB))
    broken = Broken()
    pressure.join(broken)
    with caplog.at_level(logging.ERROR):
        pressure.check()
    assert member.trims == 1
    assert "releasing memory failed" in caplog.text


def test_members_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    pressure, member, _ = watched(unified(tmp_path, 95 * MIB))
    del member
    pressure.check()
    assert pressure.trims == 1
    assert not pressure._members


def test_a_run_looks_when_it_gives_its_frame_back(tmp_path: Path) -> None:
    """After the frame is in the pool again, so that it can be given back too."""
    pressure = MemoryPressure(limited_groups(unified(tmp_path, 95 * MIB)))
    pool = WatchedPool(drive("g (float[4] x) => (float[4] y) { y = Abs(x) }").program, pressure)
    pressure.join(pool)
    pool.give_back(pool.take())
    assert pressure.trims == 1
    assert not pool._idle


# -- switches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "threshold"), [(None, 0.9), ("", 0.9), ("on", 0.9), ("off", None), ("0", None), ("0.5", 0.5), ("1", 1.0)]
)
def test_the_environment_decides(text: str | None, threshold: float | None) -> None:
    """A part of the limit, or off."""
    assert threshold_of({} if text is None else {"ORT_PY_MEMORY_PRESSURE": text}) == threshold


@pytest.mark.parametrize("text", ["yes", "90", "-1", "nan"])
def test_other_words_are_refused(text: str) -> None:
    """By name, with what can be said instead."""
    with pytest.raises(OptionError, match="ORT_PY_MEMORY_PRESSURE cannot be") as caught:
        threshold_of({"ORT_PY_MEMORY_PRESSURE": text})
    assert "ORT_PY_MEMORY_PRESSURE=0.8" in caught.value.fix


def test_nothing_is_watched_without_a_limit_or_when_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORT_PY_MEMORY_PRESSURE", raising=False)
    monkeypatch.setattr(memory_pressure, "_process", {})
    assert pressure_of_process(tmp_path / "none") is None
    limited = unified(tmp_path / "limited", MIB)
    assert pressure_of_process(limited) is pressure_of_process(limited) is not None
    monkeypatch.setenv("ORT_PY_MEMORY_PRESSURE", "off")
    assert pressure_of_process(unified(tmp_path / "off", MIB)) is None
