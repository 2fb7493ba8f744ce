"""The recipe of oneDNN's wheel, by its metadata: it is built by a workflow, which takes an hour, and by no test."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import check_native
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from workspace import ROOT, distributions

from ort_py_onednn.binding import library

RECIPE = ROOT / check_native.FOLDER
BINDING = Path(library.__file__).parent
CMAKE = (RECIPE / "CMakeLists.txt").read_text(encoding="utf-8")
SETTINGS = tomllib.loads((RECIPE / "pyproject.toml").read_text(encoding="utf-8"))


def _changed(tmp_path: Path, old: str, new: str) -> Path:
    """A copy of the recipe, one text of CMakeLists.txt replaced, as the root of a repository."""
    copy = tmp_path / check_native.FOLDER
    copy.mkdir(parents=True)
    shutil.copyfile(RECIPE / "pyproject.toml", copy / "pyproject.toml")
    assert old in CMAKE
    (copy / "CMakeLists.txt").write_text(CMAKE.replace(old, new), encoding="utf-8")
    return tmp_path


def test_the_files_of_the_recipe_agree() -> None:
    """pip and CMake read one version, and the tag of a release is made of it."""
    version = SETTINGS["project"]["version"]
    assert check_native.problems(f"onednn-v{version}") == []
    (problem,) = check_native.problems(f"v{version}")
    assert problem == f"the tag is v{version}, but that of version {version} is onednn-v{version}"


def test_another_pinned_release_is_refused(tmp_path: Path) -> None:
    root = _changed(tmp_path, f"set(RELEASE {SETTINGS['project']['version']})", "set(RELEASE 3.0.0)")
    (problem,) = check_native.problems(root=root)
    assert "but CMakeLists.txt fetches 3.0.0" in problem


def test_an_archive_without_a_sum_is_refused(tmp_path: Path) -> None:
    """The built sources are those that were reviewed, whatever the address gives."""
    (problem,) = check_native.problems(root=_changed(tmp_path, "set(RELEASE_SHA256 ", "set(RELEASE_SHA256 x"))
    assert "whose SHA-256 it does not state" in problem


def test_every_primitive_that_the_binding_creates_is_built() -> None:
    """A primitive that is left out answers "unimplemented", and the models that need it would run on NumPy."""
    built = re.search(r'set\(ONEDNN_ENABLE_PRIMITIVE\s+"([A-Z_;]+)"', CMAKE)
    assert built is not None
    sources = [file for file in BINDING.glob("*.py") if file.name not in {"declarations.py", "_dnnl.py"}]
    text = "\n".join(file.read_text(encoding="utf-8") for file in sources)
    created = set(re.findall(r"\bdnnl_([a-z_]+?)(?:_forward)?_primitive_desc_create\b", text))
    assert {"convolution", "matmul", "reorder"} <= created
    if "dnnl_{cell.name}_forward_primitive_desc_create" in text:
        created.add("rnn")
    assert created <= {name.lower() for name in built[1].split(";")}


def test_the_provider_looks_for_the_file_that_is_installed() -> None:
    """The names that the recipe and the provider's look-up use are the same."""
    scikit_build = SETTINGS["tool"]["scikit-build"]
    assert scikit_build["wheel"]["install-dir"] == library._PACKAGE
    assert scikit_build["wheel"]["packages"] == [f"src/{library._PACKAGE}"]
    assert (RECIPE / "src" / library._PACKAGE / "__init__.py").is_file()
    assert f"set(file_name {library.SONAME})" in CMAKE


def test_the_wheel_is_for_every_python_that_the_provider_supports() -> None:
    """It holds no extension module; its version is of the major version that the binding needs."""
    provider = next(one for one in distributions() if one.name == "ort-py-onednn")
    assert SETTINGS["tool"]["scikit-build"]["wheel"]["py-api"] == "py3"
    asked = [SpecifierSet(project["requires-python"]) for project in (SETTINGS["project"], provider.project)]
    assert asked[0] == asked[1]
    assert Version(SETTINGS["project"]["version"]).major == 3


def test_licences_are_carried() -> None:
    """Our own beside the metadata, those of oneDNN and of what it holds beside the library."""
    assert SETTINGS["project"]["license-files"] == ["LICENSE"]
    assert (RECIPE / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert '"${source}/LICENSE" "${source}/THIRD-PARTY-PROGRAMS" DESTINATION licenses' in CMAKE
