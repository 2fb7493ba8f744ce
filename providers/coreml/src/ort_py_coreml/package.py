"""Model packages (`.mlpackage`): a program is converted to one, and one is kept as bytes.

Packages can be made on every system. This module does not run them.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import coremltools
import numpy as np
from coremltools.converters.mil.mil.passes import pass_pipeline

from ort_py.errors import EPFail
from ort_py.lazy_dataclass import dataclass
from ort_py_coreml.lowering import RegionProgram
from ort_py_coreml.toolkit import BUILDING, TARGET

__all__ = ["Border", "facts_in", "pack", "save", "unpack"]

_BORDER = "border.json"
_DIGEST_BYTES = 32
_DATE = "com.github.apple.coremltools.conversion_date"


@dataclass(frozen=True, slots=True)
class Border:
    """The inputs and outputs of a package.

    Attributes:
        shapes, types, results: As in `RegionProgram`.
        longest: Largest size of an axis whose size is not known.
    """

    shapes: tuple[tuple[int | str, ...], ...]
    types: tuple[str, ...]
    results: tuple[str, ...]
    longest: int

    def refusal(self, shapes: tuple[tuple[int, ...], ...]) -> str | None:
        """Return why the package was not made for these shapes of its inputs, or None."""
        sizes: dict[str, int] = {}
        for declared, shape in zip(self.shapes, shapes, strict=True):
            if len(declared) != len(shape):
                return f"an input has {len(shape)} axes, and the model was compiled for {len(declared)}"
            for wanted, size in zip(declared, shape, strict=True):
                if isinstance(wanted, str):
                    if not 1 <= size <= self.longest:
                        return f"an axis has the size {size}, and the model was compiled for 1 to {self.longest}"
                    if sizes.setdefault(wanted, size) != size:
                        return f"the sizes of '{wanted}' differ: {sizes[wanted]} and {size}"
                elif wanted != size:
                    return f"an axis has the size {size}, and the model was compiled for {wanted}"
        return None


def save(region: RegionProgram, folder: Path, longest: int, *, half: bool = False) -> Border:
    """Convert a program to a package.

    Args:
        region: The program.
        folder: The package, a folder whose name ends in `.mlpackage`; it must not exist.
        longest: Largest size of an axis whose size is not known. Core ML needs a limit.
        half: Whether Core ML computes in float16.

    Raises:
        EPFail: coremltools does not convert the program.
    """
    ranges: dict[str, Any] = {}
    inputs = [
        coremltools.TensorType(
            name=name,
            shape=tuple(
                dim
                if isinstance(dim, int)
                else ranges.setdefault(dim, coremltools.RangeDim(lower_bound=1, upper_bound=longest, default=1))
                for dim in shape
            ),
            dtype=np.float32 if kind == "float32" else np.int32,
        )
        for name, shape, kind in zip(region.names, region.shapes, region.types, strict=True)
    ]
    precision = coremltools.precision.FLOAT16 if half else coremltools.precision.FLOAT32
    try:
        with _without_progress():
            model = coremltools.convert(
                region.program,
                convert_to="mlprogram",
                inputs=inputs,
                minimum_deployment_target=TARGET,
                compute_precision=precision,
                skip_model_load=True,
            )
    except Exception as error:  # coremltools raises all kinds of errors, and each means the same here
        raise EPFail(
            "coremltools cannot convert a region.",
            why=(f"{type(error).__name__}: {error}",),
            fix="run it with another provider, and report this together with the model",
        ) from error
    model.save(str(folder))
    _forget_date(folder)
    return Border(region.shapes, region.types, region.results, longest)


def _forget_date(folder: Path) -> None:
    """Remove the date from a package: equal regions must give equal packages, because these are found by digest."""
    file = folder / "Data" / "com.apple.CoreML" / "model.mlmodel"
    specification = coremltools.proto.Model_pb2.Model.FromString(file.read_bytes())
    specification.description.metadata.userDefined.pop(_DATE, None)
    file.write_bytes(specification.SerializeToString(deterministic=True))


@contextlib.contextmanager
def _without_progress() -> Iterator[None]:
    """Let coremltools show no progress bars meanwhile: three for each region say nothing to users of a session."""
    with BUILDING:
        shown = pass_pipeline.tqdm
        pass_pipeline.tqdm = partial(shown, disable=True)
        try:
            yield
        finally:
            pass_pipeline.tqdm = shown


def pack(folder: Path, border: Border, facts: Mapping[str, Any]) -> bytes:
    """Return a package as bytes. Equal packages give equal bytes.

    Args:
        folder: The package.
        border: Its inputs and outputs.
        facts: What has to be equal for the bytes to be valid; kept with them.
    """
    header = {
        "shapes": border.shapes,
        "types": border.types,
        "results": border.results,
        "longest": border.longest,
        "facts": facts,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo(_BORDER), json.dumps(header, sort_keys=True))
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            archive.writestr(zipfile.ZipInfo(file.relative_to(folder).as_posix()), file.read_bytes())
    content = buffer.getvalue()
    return _digest(content) + content


def facts_in(data: bytes) -> Mapping[str, Any] | None:
    """Return what `pack` kept with a package, or None if the bytes are damaged or no package."""
    content = data[_DIGEST_BYTES:]
    if data[:_DIGEST_BYTES] != _digest(content):
        return None
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found: Mapping[str, Any] = json.loads(archive.read(_BORDER))["facts"]
    return found


def unpack(data: bytes, folder: Path) -> Border:
    """Write a package that `pack` returned.

    Raises:
        EPFail: The bytes are damaged, or no package.
    """
    if facts_in(data) is None:
        raise EPFail(
            "A compiled region is damaged.",
            why=("its digest is that of other bytes",),
            fix="delete the cache; the model is then compiled again",
        )
    with zipfile.ZipFile(io.BytesIO(data[_DIGEST_BYTES:])) as archive:
        header = json.loads(archive.read(_BORDER))
        archive.extractall(folder, [name for name in archive.namelist() if name != _BORDER])
    shapes = tuple(tuple(shape) for shape in header["shapes"])
    return Border(shapes, tuple(header["types"]), tuple(header["results"]), int(header["longest"]))


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
