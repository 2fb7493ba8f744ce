"""The distributions agree with one another: version, licence, Python, addresses, and who depends on whom."""

from __future__ import annotations

from pathlib import Path

import check_native
import pytest
from packaging.specifiers import SpecifierSet
from workspace import Distribution, distributions, examples, expected_pins, internal_pins, read_version, write_version

import ort_py
from tests.support.source_tree import ROOT
from tests.support.workspace_copy import copied_settings

RELEASED = pytest.mark.parametrize("one", distributions(), ids=lambda one: one.name)
MEMBERS = pytest.mark.parametrize("one", [*distributions(), *examples()], ids=lambda one: one.name)


def test_the_meta_distribution_comes_first_and_examples_are_not_released() -> None:
    """Wheels are built and published from this list."""
    names = [one.name for one in distributions()]
    assert names[0] == "ort-py"
    assert {"ort-py-core", "ort-py-array", "ort-py-cpu"} < set(names)
    assert not {one.name for one in examples()} & set(names)


def test_every_project_of_the_repository_is_in_the_workspace() -> None:
    """A new distribution is in the list of those that are built, checked and published, or is an example."""
    listed = {one.folder for one in [*distributions(), *examples()]}
    folders = {file.parent for pattern in ("*", "*/*", "*/*/*") for file in ROOT.glob(f"{pattern}/pyproject.toml")}
    own = {
        one.relative_to(ROOT).as_posix() for one in folders if one.relative_to(ROOT).parts[0] not in {"build", "dist"}
    }
    # The wheel of a library of others has that library's version: it is published on its own.
    assert {one for one in own if not one.startswith(".")} <= listed | {check_native.FOLDER.as_posix()}


def test_the_version_is_that_of_the_import_package() -> None:
    """The scripts read the line that Python runs."""
    assert read_version() == ort_py.__version__


@RELEASED
def test_one_version(one: Distribution) -> None:
    """No distribution states a version of its own: each takes the core's."""
    source = Path(ROOT, one.folder, one.settings["tool"]["hatch"]["version"]["path"]).resolve()
    assert (one.project["dynamic"], source) == (["version"], ROOT / "core/src/ort_py/__init__.py")


@MEMBERS
def test_requirements_among_distributions_follow_the_version(one: Distribution) -> None:
    """Each is on exactly this version, or on a range that begins with it and ends below the next minor version."""
    assert {specifier for _, specifier in internal_pins(one)} <= set(expected_pins(read_version()))


@MEMBERS
def test_every_requirement_on_a_distribution_of_ours_is_pinned(one: Distribution) -> None:
    """None escapes the rewriting of versions by being spelt in another way; extras of a package itself are free."""
    extras = one.project.get("optional-dependencies", {}).values()
    asked = [*one.project.get("dependencies", ()), *(entry for entries in extras for entry in entries)]
    ours = [entry for entry in asked if entry.startswith("ort-py")]
    free = [entry for entry in ours if entry.startswith(f"{one.name}[") or "=" not in entry]
    assert len(ours) - len(free) == len(internal_pins(one))
    assert [entry for entry in free if not entry.startswith(("ort-py-array[", f"{one.name}["))] == []


def test_writing_a_version_changes_all_and_nothing_else(tmp_path: Path) -> None:
    """The version and the requirements change; a second call finds nothing to do; the way back restores each file."""
    root = copied_settings(tmp_path)
    before = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
    changed = write_version("7.8.9rc1", root)
    assert read_version(root) == "7.8.9rc1"
    found = {specifier for one in [*distributions(root), *examples(root)] for _, specifier in internal_pins(one, root)}
    assert found == {"==7.8.9rc1", ">=7.8.9rc1,<7.9"}
    assert SpecifierSet(">=7.8.9rc1,<7.9").contains("7.8.9")
    assert len(changed) > len(distributions(root))
    assert write_version("7.8.9rc1", root) == []
    write_version(ort_py.__version__, root)
    assert {file: file.read_bytes() for file in before} == before


@pytest.mark.parametrize("version", ["1", "1.2", "v1.2.3", "1.2.3.dev0", "1.2.3+local", "1.2.3-rc1", ""])
def test_versions_in_other_spellings_are_refused(version: str, tmp_path: Path) -> None:
    """They would not compare as meant, or could not be published."""
    with pytest.raises(ValueError, match=r"is no version of this project; write 0\.2\.0"):
        write_version(version, copied_settings(tmp_path))


def test_a_core_without_a_version_is_an_error(tmp_path: Path) -> None:
    """The text says which line is missing."""
    root = copied_settings(tmp_path)
    (root / "core/src/ort_py/__init__.py").write_text('version = "1"\n', encoding="utf-8")
    with pytest.raises(ValueError, match="has no line __version__ = "):
        read_version(root)


@RELEASED
def test_addresses(one: Distribution) -> None:
    """Every distribution says where its source, its pages, its change log and its issues are; all in one place."""
    urls = one.project["urls"]
    home = distributions()[0].project["urls"]["Source"]
    folder = "" if one.folder == "." else f"/tree/main/{one.folder}"
    assert urls == {
        "Source": f"{home}{folder}",
        "Documentation": f"{home}/blob/main/docs/user/index.md",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
        "Issues": f"{home}/issues",
    }
    assert (ROOT / "docs/user/index.md").exists()


@RELEASED
def test_one_licence(one: Distribution) -> None:
    """Each distribution carries the licence's text; the copies are equal. A library of others adds its own."""
    assert one.project["license"].split(" AND ")[0] == "Apache-2.0"
    assert (ROOT / one.folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@RELEASED
def test_one_range_of_pythons(one: Distribution) -> None:
    assert one.project["requires-python"] == ">=3.11"


@pytest.mark.parametrize("one", distributions()[1:], ids=lambda one: one.name)
def test_types_are_shipped(one: Distribution) -> None:
    """Every import package has the marker that its annotations count."""
    assert list((ROOT / one.folder / "src").glob("*/py.typed"))


def test_the_core_depends_on_no_provider() -> None:
    """Nor on anything that is not pure Python beside NumPy, onnx and the types package."""
    (core,) = (one for one in distributions() if one.name == "ort-py-core")
    names = {entry.split(">")[0].split("=")[0] for entry in core.project["dependencies"]}
    assert names == {"numpy", "onnx", "ml_dtypes", "pluggy"}
