"""Which release of onnxruntime is emulated. Its version is also in the metadata of the folder `shim`."""

from __future__ import annotations

__all__ = ["PACKAGE", "VERSION"]

PACKAGE = "onnxruntime"
VERSION = "1.31.1"
