"""Wheels are built once, and each environment is made once, for all packaging tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from workspace import distributions

from tests.support.fresh_environment import Environment, build_wheel, make_environment


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder run in one process, which keeps wheels and environments."""
    for item in items:
        if "packaging" in Path(item.path).parts:
            item.add_marker(pytest.mark.xdist_group("packaging"))


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each distribution."""
    folder = tmp_path_factory.mktemp("wheels")
    return {one.name: build_wheel(one.folder, folder) for one in distributions()}


@pytest.fixture(scope="session")
def core_only(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The core and what it depends on."""
    environment = make_environment(tmp_path_factory.mktemp("core") / "env")
    environment.install(wheels["ort-py-core"])
    return environment


@pytest.fixture(scope="session")
def core_and_cpu(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The core, the CPU provider and what they depend on."""
    environment = make_environment(tmp_path_factory.mktemp("cpu") / "env")
    environment.install(*(wheels[name] for name in ("ort-py-core", "ort-py-array", "ort-py-cpu")))
    return environment


@pytest.fixture(scope="session")
def tested(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The kit and what it depends on, the core and pytest among it, and all that the CPU provider's operators may need:
    the environment for tests of plug-ins. Tests install the plug-ins that they want into it."""
    environment = make_environment(tmp_path_factory.mktemp("tested") / "env")
    names = ("ort-py-kit", "ort-py-cpu[images,regex]")
    environment.install("--find-links", wheels["ort-py-core"].parent, *names)
    return environment


@pytest.fixture(scope="session")
def default_installation(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The packages that `pip install ort-py` installs on this platform: only the meta distribution is named."""
    environment = make_environment(tmp_path_factory.mktemp("default") / "env")
    environment.install("--find-links", wheels["ort-py"].parent, wheels["ort-py"])
    return environment
