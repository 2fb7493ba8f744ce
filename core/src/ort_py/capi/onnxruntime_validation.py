"""Facts that onnxruntime's package determines about itself at import. None of them matters to pure Python."""

from __future__ import annotations


def check_distro_info() -> None:
    """Warn about platforms that the wheel was not built for: it runs on all."""


def validate_build_package_info() -> tuple[bool, str, str, str]:
    """Return whether this is a training build, the package's name and version, and the version of its accelerator's
    library.

    Returns:
        False, the name and version of the release that is emulated, and ``""``.
    """
    from ort_py.compat.emulated import PACKAGE, VERSION

    return False, PACKAGE, VERSION, ""
