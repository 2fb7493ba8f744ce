"""`uv.lock` in step with the settings of the workspace: an environment made from it has what is required today."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from workspace import ROOT, Distribution, distributions, examples

_MEMBERS = [*distributions(), *examples()]
_OURS = {canonicalize_name(member.name) for member in _MEMBERS}


@pytest.fixture(scope="module")
def locked() -> list[dict[str, Any]]:
    """The packages of the lock file."""
    packages: list[dict[str, Any]] = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    return packages


def required(member: Distribution) -> list[Requirement]:
    """Return the requirements of a distribution and of its extras."""
    extras = member.project.get("optional-dependencies", {}).values()
    return [Requirement(text) for texts in (member.project.get("dependencies", []), *extras) for text in texts]


@pytest.mark.parametrize("member", _MEMBERS, ids=lambda member: member.name)
def test_requirements_are_those_of_the_settings(member: Distribution, locked: list[dict[str, Any]]) -> None:
    """The lock file was made from the requirements that the distribution states; else `uv lock` is due."""
    (entry,) = [one for one in locked if one["name"] == canonicalize_name(member.name)]
    noted = entry.get("metadata", {}).get("requires-dist", [])
    # Requirements on distributions of the workspace stand for the folder, whatever version they name.
    stated = {
        (canonicalize_name(one.name), SpecifierSet() if canonicalize_name(one.name) in _OURS else one.specifier)
        for one in required(member)
    }
    assert {(one["name"], SpecifierSet(one.get("specifier", ""))) for one in noted} == stated


@pytest.mark.parametrize("member", _MEMBERS, ids=lambda member: member.name)
def test_a_locked_version_meets_every_requirement(member: Distribution, locked: list[dict[str, Any]]) -> None:
    """Each requirement on somebody else's package has a locked version that its range admits."""
    versions: dict[str, list[str]] = {}
    for package in locked:
        versions.setdefault(package["name"], []).append(package.get("version", ""))
    for one in required(member):
        name = canonicalize_name(one.name)
        assert name in versions
        assert name in _OURS or any(one.specifier.contains(version) for version in versions[name]), str(one)


def test_packages_of_others_have_hashes(locked: list[dict[str, Any]]) -> None:
    """Every file that an environment may be made from is known by its SHA-256."""
    foreign = [one for one in locked if one["name"] not in _OURS]
    assert len(foreign) > 20
    files = [file for one in foreign for file in (*one.get("wheels", []), *filter(None, [one.get("sdist")]))]
    assert all(file["hash"].startswith("sha256:") for file in files)


def test_every_package_comes_from_one_index(locked: list[dict[str, Any]]) -> None:
    """No mirror of the machine that made the lock file is left in it."""
    sources = {one["source"]["registry"] for one in locked if "registry" in one["source"]}
    assert sources == {"https://pypi.org/simple"}
