"""Quotas of the process's own control group and of all above it; the smallest counts, what is unreadable does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ort_py.platform.control_groups import CpuQuota, cpu_quota

UNIFIED = "41 31 0:38 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
CPU = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:10 - cgroup cgroup rw,cpu,cpuacct\n"
OTHERS = (
    "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\nnonsense\n"
)


def tree(root: Path, own: str, mounts: str, files: dict[str, str]) -> Path:
    """A file system with ``/proc/self/cgroup``, ``mountinfo`` and files by path."""
    for path, text in {"proc/self/cgroup": own, "proc/self/mountinfo": mounts, **files}.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return root


def version_1(folder: str, quota: int, period: int = 100_000) -> dict[str, str]:
    """The two files of a group of version 1."""
    return {f"{folder}/cpu.cfs_quota_us": f"{quota}\n", f"{folder}/cpu.cfs_period_us": f"{period}\n"}


def test_no_files_mean_no_quota(tmp_path: Path) -> None:
    """Neither Linux's files nor an error: other systems."""
    assert cpu_quota(tmp_path) is None


@pytest.mark.parametrize(("own", "above", "top", "where"), [(1, 4, 8, "a/b"), (4, 2, 8, "a"), (4, 8, 3, "")])
def test_the_smallest_of_all_levels_counts(tmp_path: Path, own: int, above: int, top: int, where: str) -> None:
    """Version 2: a child's larger quota does not raise its parent's."""
    base = "sys/fs/cgroup"
    files = {
        f"{base}/a/b/cpu.max": f"{own}00000 100000\n",
        f"{base}/a/cpu.max": f"{above}00000 100000\n",
        f"{base}/cpu.max": f"{top}00000 100000\n",
        f"{base}/other/cpu.max": "1000 100000\n",
    }
    found = cpu_quota(tree(tmp_path, "0::/a/b\n", OTHERS + UNIFIED, files))
    assert found == CpuQuota(min(own, above, top), f"/{base}/{where}".rstrip("/"))


def test_levels_without_a_quota_are_passed_over(tmp_path: Path) -> None:
    """``max``, and groups in which the processor controller is not enabled."""
    files = {"sys/fs/cgroup/a/b/cpu.max": "max 100000\n", "sys/fs/cgroup/a/cpu.max": "150000 100000\n"}
    found = cpu_quota(tree(tmp_path, "0::/a/b/c\n", UNIFIED, files))
    assert found == CpuQuota(1.5, "/sys/fs/cgroup/a")


def test_version_1_is_found_where_it_is_mounted(tmp_path: Path) -> None:
    """The hierarchy with ``cpu`` among its controllers, whatever its folder is called."""
    files = {
        **version_1("sys/fs/cgroup/cpu,cpuacct/docker/x", -1),
        **version_1("sys/fs/cgroup/cpu,cpuacct/docker", 250_000),
        **version_1("sys/fs/cgroup/cpuset/docker", 100_000),
    }
    own = "4:cpuset:/docker/x\n3:cpu,cpuacct:/docker/x\n1:name=systemd:/user\n"
    assert cpu_quota(tree(tmp_path, own, OTHERS + CPU, files)) == CpuQuota(2.5, "/sys/fs/cgroup/cpu,cpuacct/docker")


def test_both_versions_at_once(tmp_path: Path) -> None:
    """A hybrid system: the tighter one."""
    files = {**version_1("sys/fs/cgroup/cpu,cpuacct/a", 300_000), "sys/fs/cgroup/unified/b/cpu.max": "200000 100000\n"}
    mounts = CPU + UNIFIED.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ")
    found = cpu_quota(tree(tmp_path, "3:cpu,cpuacct:/a\n0::/b\n", mounts, files))
    assert found == CpuQuota(2, "/sys/fs/cgroup/unified/b")


def test_a_container_that_sees_the_hosts_paths(tmp_path: Path) -> None:
    """The mounted root is the container's own group, named as on the host: below it are groups inside the container."""
    mounts = UNIFIED.replace(" / /sys", " /docker/x /sys")
    files = {"sys/fs/cgroup/inner/cpu.max": "400000 100000\n", "sys/fs/cgroup/cpu.max": "300000 100000\n"}
    found = cpu_quota(tree(tmp_path, "0::/docker/x/inner\n", mounts, files))
    assert found == CpuQuota(3, "/sys/fs/cgroup")


@pytest.mark.parametrize("own", ["0::/docker/x\n", "0::/../sibling\n", "", "nonsense\n"])
def test_a_group_outside_of_what_is_mounted(tmp_path: Path, own: str) -> None:
    """It cannot be seen; the top of what is mounted bounds the process."""
    mounts = UNIFIED.replace(" / /sys", " /pod /sys")
    files = {"sys/fs/cgroup/cpu.max": "100000 100000\n", "sys/fs/sibling/cpu.max": "1000 100000\n"}
    assert cpu_quota(tree(tmp_path, own, mounts, files)) == CpuQuota(1, "/sys/fs/cgroup")


def test_a_mount_with_a_blank_in_its_path(tmp_path: Path) -> None:
    mounts = UNIFIED.replace("/sys/fs/cgroup ", "/my\\040groups ")
    assert cpu_quota(tree(tmp_path, "0::/\n", mounts, {"my groups/cpu.max": "100000 100000"})) == CpuQuota(
        1, "/my groups"
    )
