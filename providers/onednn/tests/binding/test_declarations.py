"""The committed binding is what the declarations say."""

from __future__ import annotations

from pathlib import Path

import pytest

from ort_py_onednn.binding.declarations import GENERATED, generate


def test_the_generated_module_is_current(tmp_path: Path) -> None:
    """After a change of the declarations, run ``python -m ort_py_onednn.binding.declarations``."""
    pytest.importorskip("cffi", reason="writing the module needs all of cffi; reading it only its back end")
    fresh = tmp_path / "_dnnl.py"
    generate(fresh)
    assert GENERATED.read_text(encoding="utf-8") == fresh.read_text(encoding="utf-8")
