"""`pip install "ort-py[cuda]"` and its kin resolve from the wheels, to one CuPy each; nothing large is fetched.

Two distributions of CuPy write one import folder: whoever has both has neither. The resolver of a recent pip reads the
ends of wheels for their metadata; the wheels themselves, two gigabytes for each CUDA, stay where they are.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import ort_py
from tests.support.fresh_environment import Environment, make_environment

pytestmark = [
    pytest.mark.packaging,
    pytest.mark.skipif(
        sys.platform not in {"linux", "win32"}, reason="CuPy and NVIDIA's libraries have wheels for Linux and Windows"
    ),
]

CUPY = {"12": "cupy-cuda12x", "13": "cupy-cuda13x"}
FRONT_END = "nvidia-cudnn-frontend"
RECENT = "pip>=25.1"  # older ones fetch whole wheels, also when nothing is to be installed
MEGABYTES = {"B": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}


class _Resolver:
    """A recent pip beside the wheels."""

    def __init__(self, environment: Environment, wheels: Path) -> None:
        self._environment, self._wheels = environment, wheels

    def __call__(self, *requirements: str) -> tuple[dict[str, str], float, str]:
        """Name and version of all that would be installed, megabytes that were fetched, and what pip wrote."""
        report = self._wheels / "report.json"
        outcome = self.pip(
            "install",
            "--dry-run",
            "--ignore-installed",
            "--use-feature=fast-deps",
            f"--report={report}",
            f"--find-links={self._wheels}",
            *requirements,
        )
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        found = [one["metadata"] for one in json.loads(report.read_text(encoding="utf-8"))["install"]]
        sizes = re.findall(r"Downloading \S+ \(([\d.]+) ([kMG]?B)\)", outcome.stdout)
        fetched = sum(float(number) * MEGABYTES[unit] for number, unit in sizes)
        return {canonicalize_name(one["name"]): one["version"] for one in found}, fetched, outcome.stdout

    def pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it."""
        return self._environment.script("pip", "--disable-pip-version-check", "--no-input", *arguments)


@pytest.fixture(scope="module")
def resolve(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> _Resolver:
    """The resolver; skips where the index does not have what is to be found."""
    environment = make_environment(tmp_path_factory.mktemp("resolver") / "env")
    environment.install(RECENT)
    resolver = _Resolver(environment, wheels["ort-py"].parent)
    asked = resolver.pip("download", "--no-deps", f"--dest={environment.folder}", f"{FRONT_END}<1.29")
    if asked.returncode:
        pytest.skip(f"the package index here has no {FRONT_END}: {asked.stderr.strip().splitlines()[-1]}")
    return resolver


@pytest.mark.parametrize(
    ("asked", "cuda"),
    [
        ("ort-py[cuda]", "13"),
        ("ort-py[cuda12]", "12"),
        pytest.param("ort-py[cuda13]", "13", marks=pytest.mark.nightly),
        pytest.param("ort-py[all]", "13", marks=pytest.mark.nightly),
    ],
)
def test_an_extra_brings_one_cupy(resolve: _Resolver, asked: str, cuda: str) -> None:
    """Each extra installs the CuPy and the libraries of its CUDA, our provider, and a front end of cuDNN without
    dependencies.
    """
    found, fetched, said = resolve(asked)
    assert sorted(name for name in found if name.startswith("cupy")) == [CUPY[cuda]]
    assert found["ort-py-cuda"] == ort_py.__version__
    assert {f"nvidia-cudnn-cu{cuda}", FRONT_END} <= set(found)
    other = {"12": "cu13", "13": "cu12"}[cuda]
    assert [name for name in found if name.endswith(other)] == []
    assert not {"torch", "nvidia-cutlass-dsl"} & set(found)
    assert fetched < 20, said  # small things without metadata; the wheels that are named have 1900 MB


def test_the_provider_alone_brings_no_cupy(resolve: _Resolver) -> None:
    """`ort-py-cuda` leaves the choice to its extras."""
    found, _, _ = resolve("ort-py-cuda")
    assert [name for name in found if name.startswith(("cupy", "nvidia"))] == []
    assert {"ort-py-core", "ort-py-array"} <= set(found)
