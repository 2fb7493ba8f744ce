"""`pip install ort-py` on other systems: pip's resolver finds wheels for each, and the page says which."""

from __future__ import annotations

from pathlib import Path

import pytest
from default_installations import PYTHONS, SYSTEMS, TARGET, System, resolve
from workspace import distributions

from tests.support.fresh_environment import build_wheel

pytestmark = [pytest.mark.packaging, pytest.mark.nightly]


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of this repository, for every platform that has its own."""
    folder = tmp_path_factory.mktemp("everywhere")
    for one in distributions():
        build_wheel(one.folder, folder)
        for variable, names in one.platforms.items():
            for name in names:
                build_wheel(one.folder, folder, **{variable: name})
    return folder


@pytest.mark.parametrize("python", [PYTHONS[0], PYTHONS[-1]])
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_pip_finds_wheels(everywhere: Path, system: System, python: str) -> None:
    """The page names the fast provider that comes with them, or none."""
    found = resolve("ort-py", system, python, everywhere)
    assert {"ort-py-core", "ort-py-cpu"} <= found.sizes.keys(), found.problem
    row = next(
        line for line in TARGET.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {system.name} |")
    )
    fast = [name for name in ("ort-py-onednn", "ort-py-openvino", "ort-py-xnnpack") if name in found.sizes]
    assert row.split("|")[3].strip() == (", ".join(f"`{name}`" for name in fast) or "none")


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_the_download_is_at_most_half_as_large_again_as_onnxruntimes(everywhere: Path, system: System) -> None:
    """NumPy and onnx aside."""
    ours, theirs = (resolve(name, system, "3.12", everywhere) for name in ("ort-py", "onnxruntime"))
    assert ours.bytes <= 1.5 * theirs.bytes


def test_no_wheel_is_a_problem_with_pips_words(everywhere: Path) -> None:
    """So that the table says that the installation fails, rather than that it is small."""
    found = resolve(
        "ort-py-xnnpack", System("an old Linux", ("manylinux_2_5_x86_64",), SYSTEMS[0].markers), "3.12", everywhere
    )
    assert found.sizes == {}
    assert "No matching distribution found for ort-py-xnnpack" in found.problem
