"""Lists of the shapes that a package takes, in the place of ranges of sizes.

Apple recommends lists where few shapes occur, because the Neural Engine runs them. They are for packages that are
written for applications: a session takes whatever sizes its callers have. This module does not know coremltools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ort_py.contracts import RegionView, ValueSpec
from ort_py.errors import OptionError
from ort_py_coreml.options import check_package, unfit_package

__all__ = ["check_shapes", "shapes_of"]

_FORM = (
    "write the shape of each input whose sizes are not all known, such as x:1x3x320,mask:1x320, and a semicolon between"
    " one set of shapes and the next"
)
_MOST_SETS = 128
"""Shapes that Core ML takes in a list."""

_LARGEST = 2**31 - 1

Shape = tuple[int, ...]

_refused = partial(unfit_package, "shapes", fix=_FORM)


def check_shapes(options: Mapping[str, Any], *, written: str) -> None:
    """Check the option `shapes`.

    Args:
        options: Validated options.
        written: The ending of the file that is written; empty in sessions that run models.

    Raises:
        OptionError: It is malformed, or lists of shapes cannot be written so.
    """
    text = str(options["shapes"])
    if not text:
        return
    sets = _sets(text)
    check_package(
        "shapes",
        written,
        "sessions and assets of Core AI take any sizes, and known ones after add_free_dimension_override_by_name",
    )
    if len(sets) > _MOST_SETS:
        raise OptionError(
            f"shapes has {len(sets)} sets of shapes.",
            why=f"Core ML takes up to {_MOST_SETS}",
            fix="leave shapes out: packages take all sizes up to max_dimension then",
        )
    for place, one in enumerate(sets):
        if one in sets[:place]:
            raise OptionError(f"shapes has {_written(one)} twice.", why="each set needs to be another one", fix=_FORM)


def shapes_of(text: str, region: RegionView, *, several: bool) -> dict[int, tuple[Shape, ...]]:
    """Return the shapes that inputs may have, by the place of the input; those of several inputs belong together.

    An input that has one shape in all sets has one entry.

    Args:
        text: The option `shapes`.
        region: The region.
        several: Whether more than one input may have several shapes.

    Raises:
        EPFail: The model has no such inputs or shapes.
    """
    inputs = {value.name: value for value in region.inputs}
    listed: list[dict[str, Shape]] = []
    for one in _sets(text):
        unknown = [name for name in one if name not in inputs]
        if unknown:
            raise _refused(f"what is written has no input '{unknown[0]}'")
        missing = [name for name, value in inputs.items() if name not in one and not _is_known(value)]
        if missing:
            raise _refused(f"{_written(one)} has no shape of '{missing[0]}', whose sizes are not all known")
        sizes: dict[str, int] = {}
        for name, shape in one.items():
            reason = _unfit(inputs[name], shape, sizes)
            if reason is not None:
                raise _refused(f"'{name}' cannot be {'x'.join(map(str, shape))}: {reason}")
        listed.append(one)
    found: dict[int, tuple[Shape, ...]] = {}
    for place, value in enumerate(region.inputs):
        if not _is_known(value):
            found[place] = tuple(one[value.name] for one in listed)
    changing = [place for place, shapes in found.items() if len(set(shapes)) > 1]
    if len(changing) > 1 and not several:
        first, second = (region.inputs[place].name for place in changing[:2])
        raise _refused(
            f"'{first}' and '{second}' both have several shapes, which Core ML takes from macOS 15 on; set"
            " deployment_target to macOS15"
        )
    # Shapes of several inputs belong together by their places, so they may repeat; those of a single one may not.
    return {
        place: tuple(dict.fromkeys(shapes)) if len(changing) == 1 or place not in changing else shapes
        for place, shapes in found.items()
    }


def _sets(text: str) -> list[dict[str, Shape]]:
    found: list[dict[str, Shape]] = []
    for part in text.split(";"):
        one: dict[str, Shape] = {}
        for word in part.split(","):
            name, _, sizes = (piece.strip() for piece in word.rpartition(":"))
            numbers = sizes.split("x")
            if not name or not all(number.isascii() and number.isdigit() for number in numbers):
                raise OptionError(f"shapes has '{word.strip()}'.", why="it is no name with a shape", fix=_FORM)
            if name in one:
                raise OptionError(f"shapes has two shapes of '{name}' in one set.", why="it can have one", fix=_FORM)
            one[name] = tuple(map(int, numbers))
        found.append(one)
    return found


def _is_known(value: ValueSpec) -> bool:
    return value.shape is not None and all(isinstance(size, int) for size in value.shape)


def _unfit(value: ValueSpec, shape: Shape, sizes: dict[str, int]) -> str | None:
    """Return why an input cannot have a shape; `sizes` are those of the axes with names, in this set of shapes."""
    if value.shape is None or len(shape) != len(value.shape):
        return f"it has {len(value.shape or ())} axes"
    for size, wanted in zip(shape, value.shape, strict=True):
        if not 1 <= size <= _LARGEST:
            return f"{size} is no size of Core ML"
        if isinstance(wanted, int):
            if size != wanted:
                return f"an axis has the size {wanted} in the model"
        elif isinstance(wanted, str) and wanted and sizes.setdefault(wanted, size) != size:
            return f"'{wanted}' is {sizes[wanted]} elsewhere in this set"
    return None


def _written(one: Mapping[str, Sequence[int]]) -> str:
    return ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in one.items())
