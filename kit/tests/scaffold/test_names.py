"""Every name of a new package follows from one word."""

from __future__ import annotations

import pytest

from ort_py.errors import InvalidArgument
from ort_py_kit.scaffold import package_names


@pytest.mark.parametrize(
    ("given", "distribution", "package", "provider"),
    [
        ("acme", "ort-py-acme", "ort_py_acme", "AcmeExecutionProvider"),
        ("my-npu", "ort-py-my-npu", "ort_py_my_npu", "MyNpuExecutionProvider"),
        ("my_npu", "ort-py-my-npu", "ort_py_my_npu", "MyNpuExecutionProvider"),
        ("MyNpu", "ort-py-my-npu", "ort_py_my_npu", "MyNpuExecutionProvider"),
        ("MyNPU2", "ort-py-my-npu2", "ort_py_my_npu2", "MyNPU2ExecutionProvider"),
        ("ort-py-acme", "ort-py-acme", "ort_py_acme", "AcmeExecutionProvider"),
        ("ort_py_acme", "ort-py-acme", "ort_py_acme", "AcmeExecutionProvider"),
        ("AcmeExecutionProvider", "ort-py-acme", "ort_py_acme", "AcmeExecutionProvider"),
        ("js", "ort-py-js", "ort_py_js", "JsExecutionProvider"),
        ("webnn", "ort-py-webnn", "ort_py_webnn", "WebNNExecutionProvider"),
    ],
)
def test_names(given: str, distribution: str, package: str, provider: str) -> None:
    """However the word is written; a provider that onnxruntime has is spelt as there."""
    names = package_names(given)
    assert (names.distribution, names.package, names.provider) == (distribution, package, provider)


def test_domains() -> None:
    assert package_names("my-ops").domain == "org.my_ops"


@pytest.mark.parametrize(
    ("given", "reasons"),
    [
        ("", ["it contains no name"]),
        ("ort-py-", ["it contains no name"]),
        ("ExecutionProvider", ["it contains no name"]),
        ("2fast", ["begins with '2', not with a letter"]),
        ("-acme", ["begins with '-', not with a letter"]),
        ("acme-", ["ends with '-'"]),
        ("a/b c", ["' ', '/' cannot stand in a package's name"]),
        ("../acme", ["'.', '/' cannot stand", "begins with '.'"]),
        ("crème", ["'è' cannot stand"]),
        ("x" * 41, ["it has 41 characters; 40 are allowed"]),
    ],
)
def test_words_that_are_no_names(given: str, reasons: list[str]) -> None:
    """All reasons at once, and an example of a name."""
    with pytest.raises(InvalidArgument) as caught:
        package_names(given)
    assert all(reason in str(caught.value) for reason in reasons), str(caught.value)
    assert "ort-py new provider my-npu" in str(caught.value)


@pytest.mark.parametrize(
    "given", ["core", "array", "cpu", "CPUExecutionProvider", "ort-py-core", "xnnpack", "rknpu", "vitisai"]
)
def test_names_of_ort_py_are_taken(given: str) -> None:
    with pytest.raises(InvalidArgument, match="is a distribution of ort-py itself") as caught:
        package_names(given)
    assert "my-" in str(caught.value)
