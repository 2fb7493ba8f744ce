"""The release of onnxruntime that is emulated. Its version is also in the metadata of the folder `shim`."""

from __future__ import annotations

PACKAGE = "onnxruntime"
VERSION = "1.31.1"


def get_version_string() -> str:
    """The version of the onnxruntime release that is emulated: what its package, and its binding, tell."""
    return VERSION
