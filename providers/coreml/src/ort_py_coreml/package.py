"""Model packages (`.mlpackage`): a program of coremltools is converted to one.

Packages can be made on every system. This module does not run them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import coremltools
import numpy as np
from coremltools.converters import _converters_entry
from coremltools.converters.mil.mil.passes import pass_pipeline

from ort_py.errors import EPFail
from ort_py_coreml.artifact import Border, border_of
from ort_py_coreml.program import RegionProgram
from ort_py_coreml.toolkit import BUILDING

__all__ = ["save"]

_DATE = "com.github.apple.coremltools.conversion_date"


def save(
    region: RegionProgram,
    folder: Path,
    longest: int,
    *,
    half: bool = False,
    shapes: Mapping[int, Sequence[tuple[int, ...]]] = MappingProxyType({}),
) -> Border:
    """Convert a program to a package.

    Args:
        region: The program.
        folder: The package, a folder whose name ends in `.mlpackage`; it must not exist.
        longest: Largest size of an axis whose size is not known. Core ML needs a limit.
        half: Whether Core ML computes in float16.
        shapes: Shapes that inputs may have, by place, in the place of all sizes up to the largest.

    Raises:
        EPFail: coremltools does not convert the program.
    """
    signature = region.signature
    ranges: dict[str, Any] = {}
    precision = coremltools.precision.FLOAT16 if half else coremltools.precision.FLOAT32
    try:
        with _alone():
            inputs = [
                coremltools.TensorType(
                    name=name,
                    shape=_listed(shapes[place]) if place in shapes else _ranged(shape, ranges, longest),
                    dtype=np.float32 if kind == "float32" else np.int32,
                )
                for place, (name, shape, kind) in enumerate(
                    zip(signature.names, signature.shapes, signature.types, strict=True)
                )
                if place not in region.states
            ]
            model = coremltools.convert(
                region.program,
                convert_to="mlprogram",
                inputs=inputs,
                minimum_deployment_target=region.target,
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
    return border_of(signature, longest)


def _listed(shapes: Sequence[tuple[int, ...]]) -> Any:
    """One shape, or a list of which the first is the default."""
    return shapes[0] if len(shapes) == 1 else coremltools.EnumeratedShapes(list(shapes), default=shapes[0])


def _ranged(shape: Sequence[int | str], ranges: dict[str, Any], longest: int) -> tuple[Any, ...]:
    """Sizes, with a range for each that is not known; those of one name are one."""
    return tuple(
        dim
        if isinstance(dim, int)
        else ranges.setdefault(dim, coremltools.RangeDim(lower_bound=1, upper_bound=longest, default=1))
        for dim in shape
    )


def _forget_date(folder: Path) -> None:
    """Remove the date from a package: equal regions must give equal packages, because these are found by digest."""
    file = folder / "Data" / "com.apple.CoreML" / "model.mlmodel"
    specification = coremltools.proto.Model_pb2.Model.FromString(file.read_bytes())
    specification.description.metadata.userDefined.pop(_DATE, None)
    file.write_bytes(specification.SerializeToString(deterministic=True))


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Let coremltools convert one region at a time, and do two things less.

    It shows three progress bars for each region, which say nothing to users of a session. After each it collects all
    garbage of the process, which takes longer than a small region.
    """
    with BUILDING:
        shown, collector = pass_pipeline.tqdm, _converters_entry.gc
        pass_pipeline.tqdm = partial(shown, disable=True)
        _converters_entry.gc = SimpleNamespace(collect=lambda: 0)
        try:
            yield
        finally:
            pass_pipeline.tqdm, _converters_entry.gc = shown, collector
