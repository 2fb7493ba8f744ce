"""OpenVINO at the door that every provider goes through."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from ort_py_kit import ProviderSuite

pytest.importorskip("ort_py_openvino", reason="ort-py-openvino is not installed")

pytestmark = pytest.mark.slow  # two thousand sessions, of which a half compile something: two minutes on one core


@pytest.mark.redundant(one_in=4, table="backend_case")  # an operator has several cases
@pytest.mark.redundant(one_in=3, table="operator_version")  # most versions of an operator differ in element types only
class TestOpenVino(ProviderSuite):
    """OpenVINOExecutionProvider, which compiles regions."""

    provider = "OpenVINOExecutionProvider"
    options: ClassVar[dict[str, object]] = {"claim_small": True}
    expected_failures = Path(__file__).with_name("openvino.xfail.txt")
