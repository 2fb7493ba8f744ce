"""Name and version of the onnxruntime release that is emulated."""

from __future__ import annotations

from ort_py.compat.emulated import PACKAGE, VERSION

package_name = PACKAGE
__version__ = VERSION
