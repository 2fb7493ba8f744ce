"""Cases of ONNX's suite whose operators need a package that is not installed are skipped, with that reason."""

from __future__ import annotations

import sys

import pytest

from tests.kit.inner import run_inside

pytest_plugins = ("pytester",)

SUITE = """
from ort_py_kit import ProviderSuite

class TestCpu(ProviderSuite):
    provider = "CPUExecutionProvider"
    cases = ({case!r},)
"""


@pytest.mark.parametrize(
    ("case", "package", "reason"),
    [
        (
            "node/test_image_decoder_decode_png_rgb",
            "PIL",
            'ImageDecoder needs Pillow, which cannot be imported. Install it: pip install "ort-py-cpu[images]".',
        ),
        (
            "node/test_regex_full_match_basic",
            "re2",
            'Regular expressions need RE2, which is not installed. Install it: pip install "ort-py-cpu[regex]".',
        ),
    ],
    ids=["images", "regex"],
)
def test_a_missing_package_is_a_reason_to_skip(
    case: str, package: str, reason: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator's own words are shown, and the case is not counted: it says nothing about the provider."""
    monkeypatch.setitem(sys.modules, package, None)
    arguments = ("-p", "ort_py_kit.plugin", "-rs", "-k", "test_backend_case")
    result = run_inside(pytester, SUITE.format(case=case), *arguments)
    outcomes = result.parseoutcomes()
    assert outcomes.pop("deselected") > 20
    assert outcomes == {"skipped": 1}
    assert reason in result.stdout.str()
    assert "ONNX cases" not in result.stdout.str()
