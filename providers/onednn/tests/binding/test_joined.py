"""Functions of several libraries as those of one."""

from __future__ import annotations

import _cffi_backend
import pytest

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.joined import Joined
from ort_py_onednn.binding.library import open_library


def test_what_one_lacks_another_has() -> None:
    """The order is that in which they are given, and what is given by itself comes first."""
    library = open_library().c
    other = ffi.dlopen(_cffi_backend.__file__)
    none = Joined(other)
    both = Joined(other, library, own={"omp_set_num_threads": 7})
    assert both.dnnl_version == library.dnnl_version
    assert both.omp_set_num_threads == 7
    assert "dnnl_version" in dir(both)
    with pytest.raises(AttributeError, match="dnnl_version"):
        _ = none.dnnl_version
