"""A written region, a folder whose name ends in `.mlpackage` or `.aimodel`: what it takes, and the folder as bytes."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ort_py.errors import EPFail
from ort_py.lazy_dataclass import dataclass
from ort_py_coreml.lowering import Signature

__all__ = ["Border", "border_of", "facts_in", "pack", "unpack"]

_BORDER = "border.json"
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class Border:
    """The inputs and outputs of a written region.

    Attributes:
        shapes, types, results, bare: As in `Signature`.
        longest: Largest size of an axis whose size is not known.
    """

    shapes: tuple[tuple[int | str, ...], ...]
    types: tuple[str, ...]
    results: tuple[str, ...]
    longest: int
    bare: tuple[int, ...] = ()

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


def border_of(signature: Signature, longest: int) -> Border:
    """Return the border of a program that is written for sizes up to `longest`."""
    return Border(signature.shapes, signature.types, signature.results, longest, signature.bare)


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
        "bare": border.bare,
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
    return Border(
        shapes, tuple(header["types"]), tuple(header["results"]), int(header["longest"]), tuple(header["bare"])
    )


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
