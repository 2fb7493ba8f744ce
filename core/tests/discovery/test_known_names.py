"""The table of names that onnxruntime knows."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from pathlib import Path

import onnxruntime

from ort_py.discovery.known_names import FORMER_PROVIDERS, KNOWN_OPTIONS, KNOWN_PROVIDERS, is_known, package_for


def test_every_name_of_onnxruntime_is_known() -> None:
    """Names and their order are onnxruntime's own; its Azure provider and others have no distribution of ours."""
    assert list(KNOWN_PROVIDERS) == onnxruntime.get_all_providers()


def test_packages() -> None:
    """A known name leads to the distribution that provides it."""
    assert package_for("CPUExecutionProvider") == "ort-py-cpu"
    assert package_for("DnnlExecutionProvider") == "ort-py-onednn"
    assert package_for("AzureExecutionProvider") == "ort-py-onnxruntime"
    assert package_for("WebNNExecutionProvider") is None
    assert package_for("NobodysExecutionProvider") is None


def test_every_package_is_in_this_repository() -> None:
    """Advice only names existing packages: each has the entry point of the provider's name, of which the bridge to
    onnxruntime has those that no other package has.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for file in (Path(__file__).parents[3] / "providers").glob("*/pyproject.toml"):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        for name in project.get("entry-points", {}).get("ort_py.providers", {}):
            found[name].add(project["name"])
    for name, package in KNOWN_PROVIDERS.items():
        others = found[name] - {"ort-py-onnxruntime"}
        assert others in ({package}, set()), name
        assert package is None or package in found[name], name
        assert package != "ort-py-onnxruntime" or not others, name


def test_former_names_are_known() -> None:
    """Names of earlier versions are neither misspellings nor current names."""
    assert is_known("ROCMExecutionProvider")
    assert not FORMER_PROVIDERS & set(KNOWN_PROVIDERS)
    assert not is_known("NobodysExecutionProvider")


def test_common_options_are_known() -> None:
    assert {"device_id", "trt_fp16_enable", "device_type", "use_arena", "MLComputeUnits"} <= KNOWN_OPTIONS
