"""Versions of operators: which exist, and which opset a model declares for one."""

from __future__ import annotations

import pytest

from ort_py_kit.versions.history import OperatorVersion, operator_versions, opset_with, version_at


def test_versions_are_those_of_the_schemas() -> None:
    """Ascending; those by which an operator was deprecated are left out."""
    assert operator_versions()["", "Softmax"] == (1, 11, 13)
    assert 11 not in operator_versions()["", "Scatter"]
    assert ("", "NoSuchOperator") not in operator_versions()


@pytest.mark.parametrize(("version", "opset"), [(1, 10), (11, 12)])
def test_the_opset_is_the_last_before_the_next_version(version: int, opset: int) -> None:
    """The newest one has the newest opset there is."""
    assert opset_with(OperatorVersion("", "Softmax", version)) == opset
    assert opset_with(OperatorVersion("", "Softmax", 13)) >= 24


@pytest.mark.parametrize(("opset", "version"), [(1, 1), (12, 11), (28, 13)])
def test_the_version_at_an_opset(opset: int, version: int) -> None:
    """The last one that is not newer."""
    assert version_at("", "Softmax", opset) == version


def test_no_version_where_there_is_none() -> None:
    """The cases are an operator before its introduction, after its deprecation, and unknown names."""
    assert version_at("", "Gelu", 19) is None
    assert version_at("", "Scatter", 13) is None
    assert version_at("com.example", "Relu", 1) is None


def test_names_have_the_domain() -> None:
    assert str(OperatorVersion("", "Relu", 6)) == "Relu-6"
    assert str(OperatorVersion("ai.onnx.ml", "Scaler", 1)) == "ai.onnx.ml.Scaler-1"
