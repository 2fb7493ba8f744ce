"""The two libraries that the provider is written for, TensorRT and TensorRT-RTX, and what tells them apart.

Everything else of the package takes a `Variant`. Data only; comes before all other files.
"""

from __future__ import annotations

from ort_py.lazy_dataclass import dataclass

__all__ = ["RTX", "TENSORRT", "VARIANTS", "Variant"]


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the libraries.

    Attributes:
        provider: Name of its provider, as in onnxruntime.
        module: Module that the library is imported as.
        title: Name of the library for users.
        prefix: Beginning of the names of onnxruntime's options for it.
        distributions: Distributions that bring the module; the first one is the one to install.
        oldest: Version from which it is taken.
        extra: Extra of ort-py that installs it.
        compiles_ahead: Whether it compiles for devices that are not there. Such a library needs no timings.
    """

    provider: str
    module: str
    title: str
    prefix: str
    distributions: tuple[str, ...]
    oldest: tuple[int, int]
    extra: str
    compiles_ahead: bool

    @property
    def install_command(self) -> str:
        """The command that installs everything that it needs."""
        return f'pip install "ort-py[{self.extra}]"'


TENSORRT = Variant(
    provider="TensorrtExecutionProvider",
    module="tensorrt",
    title="TensorRT",
    prefix="trt",
    distributions=("tensorrt-cu13", "tensorrt-cu12", "tensorrt"),
    oldest=(11, 0),
    extra="tensorrt",
    compiles_ahead=False,
)

RTX = Variant(
    provider="NvTensorRTRTXExecutionProvider",
    module="tensorrt_rtx",
    title="TensorRT-RTX",
    prefix="nv",
    distributions=("tensorrt-rtx-cu13", "tensorrt-rtx-cu12", "tensorrt-rtx"),
    oldest=(1, 7),
    extra="tensorrt-rtx",
    compiles_ahead=True,
)

VARIANTS = (TENSORRT, RTX)
