"""Our numbers for NVIDIA's names are those of its headers, which come with the libraries."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path

import pytest

from ort_py_cuda import libraries
from ort_py_cuda.cublaslt.binding import NOT_SUPPORTED, DescField, LayoutField, PreferenceField
from ort_py_cuda.cublaslt.elements import Compute, CudaType, Epilogue


def _folder() -> Path | None:
    library = libraries.find("cublasLt")
    folder = None if library is None else library.parent.parent / "include"
    return folder if folder is not None and (folder / "cublasLt.h").exists() else None


_FOLDER = _folder()
pytestmark = pytest.mark.skipif(_FOLDER is None, reason="needs NVIDIA's headers: pip install ort-py-cuda[cuda13]")


def _text(name: str) -> str:
    assert _FOLDER is not None
    return (_FOLDER / name).read_text(encoding="utf-8", errors="replace")


def _value(text: str, name: str) -> int:
    """The value of a member of an enumeration, which may be written as a sum of others."""
    found = re.search(rf"\b{name}\s*=\s*([^,/\n]+)", text)
    assert found is not None, name
    parts = [part.strip(" ()") for part in found[1].split("|")]
    value = 0
    for part in parts:
        value |= int(part, 0) if part[0].isdigit() else _value(text, part)
    return value


@pytest.mark.parametrize(
    ("ours", "prefix", "header"),
    [
        (DescField, "CUBLASLT_MATMUL_DESC_", "cublasLt.h"),
        (LayoutField, "CUBLASLT_MATRIX_LAYOUT_", "cublasLt.h"),
        (PreferenceField, "CUBLASLT_MATMUL_PREF_", "cublasLt.h"),
        (Epilogue, "CUBLASLT_EPILOGUE_", "cublasLt.h"),
        (Compute, "CUBLAS_COMPUTE_", "cublas_api.h"),
        (CudaType, "CUDA_", "library_types.h"),
    ],
)
def test_numbers(ours: type[IntEnum], prefix: str, header: str) -> None:
    text = _text(header)
    short = {"F32": "32F", "F64": "64F", "I32": "32I", "F32_FAST_TF32": "32F_FAST_TF32"}
    names = {member: prefix + short.get(member.name, member.name) for member in ours}
    assert {name: _value(text, name) for name in names.values()} == {name: int(one) for one, name in names.items()}


def test_the_status_that_is_no_failure() -> None:
    """It lets a product be computed without its epilogue."""
    assert _value(_text("cublas_api.h"), "CUBLAS_STATUS_NOT_SUPPORTED") == NOT_SUPPORTED
