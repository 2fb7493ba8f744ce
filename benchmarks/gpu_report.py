"""Results of `benchmarks.gpu` as Markdown: the device with the date, its ceilings, models, families of kernels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.gpu_device import Ceilings

__all__ = ["FamilyRow", "ModelRow", "page"]

WITHIN = 1.3
"""How far over the nearer of torch.compile and the roofline a model may be."""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model, a batch and a precision.

    Attributes:
        model, batch, precision: Which.
        seconds: Median of each runtime that ran it, by its name in `benchmarks.gpu`.
        refused: Why the others did not.
        roofline: Seconds; None where the ceiling of the precision is not known.
        error: Relative difference of our outputs to eager PyTorch's; None where there is none to compare.
    """

    model: str
    batch: int
    precision: str
    seconds: Mapping[str, float]
    refused: Mapping[str, str]
    roofline: float | None
    error: float | None


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """A family of kernels in a precision: `achieved` of our provider in bytes or operations a second, and the
    `ceiling` of the same unit; None where it did not run, with `refused`."""

    family: str
    precision: str
    bound: str
    achieved: float | None
    ceiling: float | None
    refused: str = ""


def page(
    date: str, ceilings: Ceilings, names: Mapping[str, str], rows: Sequence[ModelRow], families: Sequence[FamilyRow]
) -> str:
    """All tables.

    Args:
        date: Of the day.
        ceilings: Of the device.
        names: Title of each runtime by its name; ours under ``"ours"``, PyTorch's ``"eager"`` and ``"compiled"``.
        rows, families: What was measured.
    """
    lines = [f"Measured on {date}: {ceilings.name}; {ceilings.software}.", "", *_ceilings(ceilings)]
    for precision in dict.fromkeys(row.precision for row in rows):
        lines += [
            "",
            f"## Models, {precision}",
            "",
            *_models(names, [row for row in rows if row.precision == precision]),
        ]
    refused = _refusals(rows, families)
    if families:
        lines += ["", "## Families of kernels", "", *_families(families)]
    if refused:
        lines += ["", "## What did not run", "", *refused]
    return "\n".join(lines) + "\n"


def _ceilings(found: Ceilings) -> list[str]:
    lines = ["| ceiling | measured |", "|---|---|", f"| copy, read and written | {found.copied / 1e9:.0f} GB/s |"]
    lines += [f"| product, {name} | {one / 1e12:.1f} TFLOP/s |" for name, one in found.operations.items()]
    return [*lines, *(f"| product, {name} | not measured: {why} |" for name, why in found.failed.items())]


def _models(names: Mapping[str, str], rows: Sequence[ModelRow]) -> list[str]:
    titles = [*(f"{title} ms" for title in names.values()), "/ eager", "/ compiled", "/ roofline", "error", "good"]
    lines = [f"| model | batch | {' | '.join(titles)} |", "|---|---" + "|---" * len(titles) + "|"]
    for row in rows:
        ours = row.seconds.get("ours")
        others = [row.seconds.get("eager"), row.seconds.get("compiled"), row.roofline]
        cells = [_time(row.seconds.get(name)) for name in names]
        cells += ["–" if ours is None or one is None else f"{ours / one:.2f}" for one in others]
        cells += ["–" if row.error is None else f"{row.error:.0e}", _good(row)]
        lines.append(f"| {row.model} | {row.batch} | {' | '.join(cells)} |")
    return [*lines, "", *_means(rows)]


def _good(row: ModelRow) -> str:
    """Whether it is as fast as eager PyTorch and near enough to the nearer bound; a dash where that is not known."""
    ours, eager = row.seconds.get("ours"), row.seconds.get("eager")
    bounds = [one for one in (row.seconds.get("compiled"), row.roofline) if one is not None]
    if ours is None or eager is None or not bounds:
        return "–"
    return "yes" if ours <= eager and ours <= WITHIN * max(bounds) else "no"


def _means(rows: Iterable[ModelRow]) -> list[str]:
    parts = []
    for name in ("eager", "compiled", "onnxruntime"):
        logs = [
            math.log(row.seconds["ours"] / row.seconds[name]) for row in rows if {"ours", name} <= row.seconds.keys()
        ]
        if logs:
            parts.append(f"{math.exp(sum(logs) / len(logs)):.2f} of {name} ({len(logs)})")
    return [f"Geometric means of our time: {', '.join(parts)}."] if parts else []


def _families(rows: Sequence[FamilyRow]) -> list[str]:
    lines = ["| family | precision | reached | ceiling | share |", "|---|---|---|---|---|"]
    for row in rows:
        unit, scale = ("GB/s", 1e9) if row.bound == "bytes" else ("TFLOP/s", 1e12)
        cells = ["–" if one is None else f"{one / scale:.1f} {unit}" for one in (row.achieved, row.ceiling)]
        share = "–" if row.achieved is None or row.ceiling is None else f"{row.achieved / row.ceiling:.0%}"
        lines.append(f"| {row.family} | {row.precision} | {' | '.join(cells)} | {share} |")
    return lines


def _refusals(rows: Iterable[ModelRow], families: Iterable[FamilyRow]) -> list[str]:
    told: dict[str, list[str]] = {}
    for row in rows:
        for name, why in row.refused.items():
            told.setdefault(f"{name}: {_line(why)}", []).append(f"{row.model} × {row.batch} {row.precision}")
    for one in families:
        if one.refused:
            told.setdefault(_line(one.refused), []).append(f"{one.family} {one.precision}")
    return [f"- {why} ({', '.join(where)})" for why, where in told.items()]


def _line(text: str) -> str:
    return " ".join(text.split())[:300]


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1e3:.3f}"
