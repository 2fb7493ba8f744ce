"""The committed binding is what the declarations say, and the library has every function of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ort_py_xnnpack.binding.declarations import (
    DECLARATIONS,
    GENERATED,
    POOL_DECLARATIONS,
    SHARED_POOL_DECLARATIONS,
    functions,
    generate,
)
from ort_py_xnnpack.binding.library import open_library


def test_the_generated_module_is_current(tmp_path: Path) -> None:
    """After a change of the declarations, run ``python -m ort_py_xnnpack.binding.declarations``."""
    pytest.importorskip("cffi", reason="writing the module needs all of cffi; reading it only its back end")
    fresh = tmp_path / "_xnnpack.py"
    generate(fresh)
    assert GENERATED.read_text(encoding="utf-8") == fresh.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", functions(DECLARATIONS))
def test_the_library_has_the_function(name: str) -> None:
    """XNNPACK promises no stable interface, and its exports are incidental: each is looked up."""
    assert getattr(open_library().c, name) is not None


@pytest.mark.parametrize("name", functions(POOL_DECLARATIONS))
def test_the_pool_has_the_function(name: str) -> None:
    """The library of the thread pool hides its functions on macOS, where ExecuTorch's pool serves."""
    library = open_library()
    if not library.makes_pools:
        pytest.skip("the library of the thread pool exports none of its functions on this platform")
    assert getattr(library.pools, name) is not None


@pytest.mark.parametrize("name", functions(SHARED_POOL_DECLARATIONS))
def test_the_shared_pool_has_the_function(name: str) -> None:
    """On every platform, so that the way that macOS takes can be tested on all."""
    assert getattr(open_library().pools, name) is not None
