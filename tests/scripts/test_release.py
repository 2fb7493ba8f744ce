"""A release: what refuses it, how two builds are compared, and what the check of its files finds.

`tests/packaging/test_release.py` runs the whole script.
"""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from check_packages import problems_in
from release import compare, main, prepare, unready
from workspace import ROOT, Distribution, distributions, expected_pins, read_version

from tests.support.workspace_copy import commit_all, copied_settings

VERSION = read_version()
TAG = f"v{VERSION}"
CPU = next(one for one in distributions() if one.name == "ort-py-cpu")


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A committed copy of the settings, in which the change log has a section for the version."""
    root = copied_settings(tmp_path / "repository")
    log = root / "CHANGELOG.md"
    log.write_text(f"# Changes\n\n## {VERSION} (2026-01-01)\n", encoding="utf-8")
    commit_all(root)
    return root


def test_a_tree_can_be_ready(ready: Path) -> None:
    """Nothing refuses it: the tag, the change log and the requirements agree, and all is committed."""
    assert unready(TAG, ready) == []


def test_a_release_needs_the_tag_of_its_version(ready: Path) -> None:
    """Without a tag, or under another version's, nothing is released."""
    assert unready(None, ready) == [f"no tag is named; the tag of this version is {TAG}"]
    assert unready("v9.9.9", ready) == [f"the tag is v9.9.9, but the version is {VERSION}"]


def test_a_release_is_in_the_change_log(ready: Path) -> None:
    """A section of another version does not count, and the command that writes one is named."""
    (ready / "CHANGELOG.md").write_text(f"# Changes\n\n## {VERSION}1 (2026-01-01)\n", encoding="utf-8")
    commit_all(ready)
    (reason,) = unready(TAG, ready)
    assert reason == f"CHANGELOG.md has no section for {VERSION}; `scripts/release.py prepare` writes it"


def test_no_change_fragment_is_left_behind(ready: Path) -> None:
    """A change that came after the section was written belongs to the next version."""
    (ready / "docs/changes/1-late.fixed.md").write_text("ort-py-core: Late.\n", encoding="utf-8")
    commit_all(ready)
    (reason,) = unready(TAG, ready)
    assert reason == "1 change fragments are in no section of CHANGELOG.md, 1-late.fixed.md for one"


def test_requirements_that_do_not_follow_refuse_a_release(ready: Path) -> None:
    """The distribution and its requirement are named."""
    file = ready / "providers/cpu/pyproject.toml"
    exact, ranged = expected_pins(VERSION)
    file.write_text(file.read_text(encoding="utf-8").replace(f"core{ranged}", "core>=0.0.9,<0.2"), encoding="utf-8")
    commit_all(ready)
    expected = f"ort-py-cpu asks for ort-py-core>=0.0.9,<0.2, which does not follow version {VERSION}"
    assert unready(TAG, ready) == [expected]
    assert exact == f"=={VERSION}"


def test_uncommitted_changes_refuse_a_release(ready: Path) -> None:
    """New files count, too: what is published is a commit."""
    (ready / "new.txt").write_text("new", encoding="utf-8")
    assert unready(TAG, ready) == ["the work tree has changes that are not committed"]


def test_a_build_without_a_tag_is_refused_before_anything_is_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code says so to the workflow; `--dry-run` is what goes on."""
    assert main(["build", "--tag", "v0.0.0", "--out", str(tmp_path / "out")]) == 1
    assert "Refused: the tag is v0.0.0, but the version is" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_versions_are_refused_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version in another spelling ends the script with what to write instead."""
    monkeypatch.setattr("release.ensure_tools", lambda _: Path("python"))
    with pytest.raises(SystemExit, match=r"'v0\.2' is no version of this project"):
        main(["prepare", "v0.2"])


def test_a_version_is_prepared_once(ready: Path) -> None:
    """A second section for one version would say that it was released twice."""
    with pytest.raises(SystemExit, match=f"has a section for {VERSION} already"):
        prepare(VERSION, Path("python"), ready)


def test_two_builds_are_compared_byte_by_byte(tmp_path: Path) -> None:
    """Files that differ, and files that one build lacks, are named."""
    for name, texts in {"a": {"same": "1", "other": "2", "gone": "3"}, "b": {"same": "1", "other": "4"}}.items():
        (tmp_path / name).mkdir()
        for file, text in texts.items():
            (tmp_path / name / file).write_text(text, encoding="utf-8")
    assert compare(tmp_path / "a", tmp_path / "a") == []
    assert compare(tmp_path / "a", tmp_path / "b") == [
        "gone came out of one of two builds only",
        "other is not reproducible: two builds of the same files differ",
    ]


def test_files_of_a_release_are_complete(tmp_path: Path) -> None:
    """A wheel and an sdist of each distribution, and nothing more."""
    for one in distributions():
        _write(tmp_path, one, tag="py3-none-manylinux_2_28_x86_64" if one.platforms else "py3-none-any")
    assert problems_in(tmp_path) == []
    (tmp_path / f"ort_py_cpu-{VERSION}.tar.gz").unlink()
    (tmp_path / "notes.txt").write_text("", encoding="utf-8")
    (tmp_path / "other-1.0-py3-none-any.whl").write_bytes(
        (tmp_path / f"ort_py-{VERSION}-py3-none-any.whl").read_bytes()
    )
    assert problems_in(tmp_path) == [
        "notes.txt: is neither a wheel nor an sdist",
        "other-1.0-py3-none-any.whl: is no distribution of this repository",
        "the sdist of ort-py-cpu is missing",
    ]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"version": "0.0.9"}, f"is of version 0.0.9, not {VERSION}"),
        ({"named": "ort-py-gpu"}, "says that it is ort-py-gpu, not ort-py-cpu"),
        ({"urls": 0}, "lacks addresses of the project"),
        (
            {"requires": "ort-py-core>=0.0.9"},
            f"asks for ort-py-core>=0.0.9, which does not follow version {VERSION}",
        ),
        ({"requires": "!"}, "its metadata are not valid: '!' is invalid for 'requires-dist'"),
        ({"licence": False}, "does not carry the licence"),
        ({"metadata": "OTHER"}, "has no METADATA"),
        ({"package": "elsewhere"}, "lacks the import package ort_py_cpu"),
        ({"more": "tests/test_x.py"}, "has tests, which is not part of it"),
        ({"tag": "cp311-cp311-linux_x86_64"}, "is not for every platform"),
    ],
)
def test_what_is_wrong_with_a_wheel_is_said(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    """Metadata that an index or an installer would stumble over, and files that are missing or do not belong."""
    (wheel, sdist) = _write(tmp_path, CPU, **changes)
    found = [text for text in problems_in(tmp_path) if text.startswith(wheel.name)]
    assert f"{wheel.name}: {problem}" in found
    assert sdist.exists()


def test_a_wheel_without_its_library_is_said(tmp_path: Path) -> None:
    """A build on a platform for which there is no library leaves it out."""
    (native,) = (one for one in distributions() if one.platforms)
    (wheel, _) = _write(tmp_path, native)
    assert f"{wheel.name}: is for no platform" in problems_in(tmp_path)


def test_an_sdist_can_be_built_from(tmp_path: Path) -> None:
    """Its project file is there, in the one folder that it unpacks to."""
    (_, sdist) = _write(tmp_path, CPU, project="elsewhere/other.toml")
    found = [text for text in problems_in(tmp_path) if text.startswith(sdist.name)]
    assert found == [f"{sdist.name}: has 2 folders at its top", f"{sdist.name}: cannot be built: no pyproject.toml"]


def _write(  # the defaults make files without a fault
    folder: Path,
    one: Distribution,
    *,
    version: str = VERSION,
    named: str = "",
    urls: int = 4,
    requires: str = f"ort-py-core=={VERSION}",
    licence: bool = True,
    metadata: str = "METADATA",
    package: str = "",
    more: str = "",
    tag: str = "py3-none-any",
    project: str = "",
) -> tuple[Path, Path]:
    """Write a wheel and an sdist of a distribution with little in them; returns both."""
    stem = f"{one.name.replace('-', '_')}-{VERSION}"
    lines = ["Metadata-Version: 2.4", f"Name: {named or one.name}", f"Version: {version}", f"Requires-Dist: {requires}"]
    lines += [f"Project-URL: {label}, https://example.org/" for label in list(one.project["urls"])[:urls]]
    text = "\n".join(lines) + "\n"
    sources = [path.parent.name for path in (ROOT / one.folder / "src").glob("*/__init__.py")]
    wheel, sdist = folder / f"{stem}-{tag}.whl", folder / f"{stem}.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{stem}.dist-info/{metadata}", text)
        archive.writestr(f"{stem}.dist-info/licenses/{'LICENSE' if licence else 'OTHER'}", "")
        for name in sources:
            archive.writestr(f"{package or name}/__init__.py", "")
        if more:
            archive.writestr(more, "")
    with tarfile.open(sdist, "w:gz") as packed:
        names = [f"{stem}/PKG-INFO", f"{stem}/LICENSE", project or f"{stem}/pyproject.toml"]
        for name, content in zip(names, [text, "", ""], strict=True):
            info = tarfile.TarInfo(name)
            info.size = len(content.encode())
            packed.addfile(info, io.BytesIO(content.encode()))
    return wheel, sdist
