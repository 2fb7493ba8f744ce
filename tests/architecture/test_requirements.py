"""Files of requirements agree with the metadata of the distributions and with one another."""

from __future__ import annotations

import re

from packaging.requirements import Requirement
from workspace import ROOT, distributions

NOT_BY_DEFAULT = {"ort-py-openvino", "ort-py-xnnpack", "ort-py-coreml", "ort-py-cuda", "ort-py-onnxruntime"} | {
    "ort-py-tensorrt"
}
"""Their libraries are not in the environment of the tests."""


def _pins(name: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines()
    found = (re.match(r"([A-Za-z0-9_.-]+)==([^\s;\\]+)", line) for line in lines)
    return {one[1].replace("_", "-").lower(): one[2] for one in found if one}


def test_the_oldest_dependencies_are_the_lower_bounds() -> None:
    """`scripts/test.py --oldest` tests what the metadata allow, for each dependency that is not the tests' own."""
    bounds: dict[str, str] = {}
    for one in distributions():
        if one.name in NOT_BY_DEFAULT:
            continue
        extras = one.project.get("optional-dependencies", {}).values()
        for text in [*one.project.get("dependencies", ()), *(entry for entries in extras for entry in entries)]:
            entry = Requirement(text)
            lowest = [spec.version for spec in entry.specifier if spec.operator == ">="]
            if lowest and not entry.name.startswith("ort-py") and entry.name != "pytest":
                bounds[entry.name.replace("_", "-").lower()] = lowest[0]
    pins = {name: re.sub(r"(\.0)+$", "", version) for name, version in _pins("oldest.txt").items()}
    assert pins == {name: re.sub(r"(\.0)+$", "", version) for name, version in bounds.items()}


def test_tools_of_a_release_are_pinned_by_hash() -> None:
    """Each has a version and hashes, those that are tested with in the version of the tests; no index is named."""
    lines = (ROOT / "requirements/release.in").read_text(encoding="utf-8").splitlines()
    wanted = {line for line in lines if line[:1].isalpha()}
    text = (ROOT / "requirements/release.txt").read_text(encoding="utf-8")
    pins, tested = _pins("release.txt"), _pins("dev.txt")
    assert wanted <= set(pins)
    assert [name for name in pins if tested.get(name, pins[name]) != pins[name]] == []
    assert len(re.findall(r"^[a-z].*\\\n    --hash=sha256:", text, re.M)) == len(pins)
    assert "://" not in text
