"""NVIDIA's libraries: where they are looked for, in which order, and what is said where they are not."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import pytest

from ort_py.errors import EPFail
from ort_py_cuda import libraries

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="file names of Linux")


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of wheels and one of a toolkit, and nothing of the system."""
    monkeypatch.setattr(libraries, "_wheel_roots", lambda: [tmp_path / "nvidia"])
    monkeypatch.setattr(libraries, "_toolkits", lambda: iter([tmp_path / "toolkit"]))
    monkeypatch.setattr(libraries, "_system_folders", list)
    libraries._load.cache_clear()
    return tmp_path


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_wheels_of_cuda_13_share_a_folder(folders: Path) -> None:
    lt = put(folders / "nvidia/cu13/lib/libcublasLt.so.13")
    cudnn = put(folders / "nvidia/cudnn/lib/libcudnn.so.9")
    assert libraries.find("cublasLt", 13) == lt
    assert libraries.find("cudnn", 13) == cudnn


def test_wheels_of_cuda_12_have_one_each(folders: Path) -> None:
    """And their versions are not all the CUDA's."""
    assert libraries.find("cufft", 12) is None
    fft = put(folders / "nvidia/cufft/lib/libcufft.so.11")
    assert libraries.find("cufft", 12) == fft
    assert libraries.find("cufft", 13) is None


def test_a_toolkit_comes_after_the_wheels(folders: Path) -> None:
    """Both have it: the wheel is what CuPy takes too."""
    toolkit = put(folders / "toolkit/lib64/libnvrtc.so.13")
    assert libraries.find("nvrtc", 13) == toolkit
    wheel = put(folders / "nvidia/cu13/lib/libnvrtc.so.13")
    assert libraries.find("nvrtc", 13) == wheel


def test_any_version_where_the_cuda_is_not_known(folders: Path) -> None:
    """A CuPy built from source, with no wheel of NVIDIA's."""
    found = put(folders / "toolkit/lib64/libnvrtc.so.12")
    assert libraries.find("nvrtc", 0) == found


def test_what_is_not_there_is_named_with_its_wheel(folders: Path) -> None:
    """The message contains the names tried, the folders searched, and the wheel that contains the library."""
    put(folders / "nvidia/cufft/lib/other.so")
    with pytest.raises(EPFail) as caught:
        libraries._load("cufft", 13)
    text = str(caught.value)
    assert "NVIDIA's library cufft cannot be loaded" in text
    assert "libcufft.so.12: " in text
    assert str(folders / "nvidia/cufft/lib") in text
    assert 'pip install "ort-py-cuda[cuda13]", or only nvidia-cufft' in text


def test_the_driver_is_no_wheel(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str, *_args: Any, **_keywords: Any) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", nothing)
    with pytest.raises(EPFail) as caught:
        libraries._load("cuda", 13)
    assert "it comes with NVIDIA's driver" in str(caught.value)
    assert "install NVIDIA's driver" in caught.value.fix


def test_what_the_process_has_loaded_is_taken(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's copy, where torch came first: one library, not two."""
    loaded = object()
    put(folders / "nvidia/cu13/lib/libnvrtc.so.13")
    monkeypatch.setattr(libraries, "_loaded", lambda soname: loaded if soname == "libnvrtc.so.13" else None)
    assert libraries._load("nvrtc", 13) is loaded


def test_folders_of_headers(folders: Path) -> None:
    """Those that hold the half types, and what they include."""
    assert libraries.include_folders() == ()
    put(folders / "nvidia/cu13/include/cuda_fp16.h")
    put(folders / "nvidia/cu13/include/cccl/nv/target")
    assert libraries.include_folders() == (
        folders / "nvidia/cu13/include",
        folders / "nvidia/cu13/include/cccl",
    )
