"""`python -m benchmarks.gpu [NAME …] [--batch N …] [--precision P …] [--write FILE]`: ort-py beside PyTorch on a GPU.

Eager PyTorch, torch.compile, onnxruntime's CUDA provider where it is installed, and ours: one process each, alternating
blocks, medians of runs that end when the device has ended, inputs and outputs on the device, outputs compared. Models
are made here, with seeded weights, as ONNX and as equal PyTorch modules. Each is held against the device's measured
ceilings, and so is each family of kernels. Exits with code 2 without a CUDA device.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.alternating import BLOCKS, VARIANT, Refused, Runtimes, Timing
from benchmarks.gpu_device import PRECISIONS, Ceilings, ceilings, no_device
from benchmarks.gpu_families import FAMILIES, Family
from benchmarks.gpu_models import MODELS, GpuModel, model_of
from benchmarks.gpu_report import FamilyRow, ModelRow, page
from benchmarks.gpu_work import roofline, work_of
from benchmarks.providers import relative_error

__all__ = ["RUNTIMES", "main", "measure_family", "measure_model", "variants"]

RUNTIMES: dict[str, tuple[str, str]] = {
    "eager": ("torch", "torch eager"),
    "compiled": ("torch", "torch.compile"),
    "onnxruntime": ("onnxruntime", "onnxruntime"),
    "ours": ("ort_py", "ort-py"),
}
"""What is compared: the runtime that `runtime_child` knows, and a title."""

NO_DEVICE = 2


def main(arguments: list[str]) -> int:
    """Print a line for each model as it is measured, then the page; returns an exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(model.name for model in MODELS)}; all")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--runtimes", nargs="+", choices=tuple(RUNTIMES), default=list(RUNTIMES))
    parser.add_argument("--graphs", action="store_true", help="capture runs as CUDA graphs, in every runtime")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help=f"blocks of 0.3 s for each ({BLOCKS})")
    parser.add_argument("--families", choices=("also", "only", "no"), default="also", help="single kernels")
    parser.add_argument("--write", type=Path, help="a Markdown file of docs/benchmarks to write the page to")
    chosen = parser.parse_args(arguments)
    reason = no_device()
    if reason:
        print(reason, file=sys.stderr)
        return NO_DEVICE
    models = [model_of(name) for name in chosen.names] or list(MODELS)
    found = ceilings()
    rows: list[ModelRow] = []
    families: list[FamilyRow] = []
    for precision in chosen.precision:
        settings = variants(chosen.runtimes, "cuda", precision, chosen.graphs)
        with Runtimes(1, names=list(settings), variants=settings) as runtimes:
            for model in models if chosen.families != "only" else ():
                for batch in chosen.batch:
                    rows.append(measure_model(runtimes, model, batch, precision, chosen.blocks, found))
                    print(_row_text(rows[-1]), flush=True)
        if chosen.families != "no":
            families += _families(precision, chosen.blocks, found)
    names = {name: title for name, (_, title) in RUNTIMES.items() if name in chosen.runtimes}
    date = datetime.datetime.now(datetime.UTC).date().strftime("%d %B %Y").lstrip("0")
    text = page(date, found, names, rows, families)
    print(text)
    if chosen.write:
        command = f"python -m benchmarks.gpu {' '.join(arguments)}"
        chosen.write.write_text(f"# On a GPU: {found.name.partition(',')[0]}\n\n```\n{command}\n```\n\n{text}", "utf-8")
    return 0


def variants(names: Sequence[str], kind: str, precision: str, graphs: bool) -> dict[str, dict[str, Any]]:
    """Settings of each process, by the name it goes under in `Runtimes`."""
    device = {"kind": kind, "tf32": precision == "tf32", "graphs": graphs}
    return {
        f"{RUNTIMES[name][0]}{VARIANT}{name}": {"device": {**device, "compiled": name == "compiled"}} for name in names
    }


def measure_model(
    runtimes: Runtimes,
    model: GpuModel,
    batch: int,
    precision: str,
    blocks: int,
    known: Ceilings,
    *,
    small: bool = False,
    seconds: float = 0.3,
    folder: Path | None = None,
) -> ModelRow:
    """Time one model in every process; `small`, `seconds` and `folder` are for tests."""
    made = model.make(batch, precision == "float16", small=small, folder=folder)
    found = _by_name(runtimes.measure(made.path, made.feeds, blocks, seconds))
    timed = {name: one for name, one in found.items() if isinstance(one, Timing)}
    operations = known.operations.get(precision)
    return ModelRow(
        model.name,
        batch,
        precision,
        {name: one.median for name, one in timed.items()},
        {name: str(one) for name, one in found.items() if isinstance(one, Refused)},
        None if operations is None else roofline(work_of(made.path), operations, known.copied),
        relative_error(timed["ours"].outputs, timed["eager"].outputs) if {"ours", "eager"} <= timed.keys() else None,
    )


def measure_family(
    runtimes: Runtimes, family: Family, precision: str, blocks: int, known: Ceilings, folder: Path, seconds: float = 0.3
) -> FamilyRow:
    """Time one family in our provider's process."""
    path, feeds, work = family.make(folder, precision == "float16")
    (found,) = _by_name(runtimes.measure(path, feeds, blocks, seconds)).values()
    ceiling = known.copied if family.bound == "bytes" else known.operations.get(precision)
    if isinstance(found, Refused):
        return FamilyRow(family.name, precision, family.bound, None, ceiling, str(found))
    amount = work.transferred if family.bound == "bytes" else work.operations
    return FamilyRow(family.name, precision, family.bound, amount / found.median, ceiling)


def _families(precision: str, blocks: int, known: Ceilings) -> list[FamilyRow]:
    # TF32 changes products alone.
    measured = [one for one in FAMILIES if precision != "tf32" or one.bound == "operations"]
    settings = variants(["ours"], "cuda", precision, graphs=False)
    with tempfile.TemporaryDirectory() as folder, Runtimes(1, names=list(settings), variants=settings) as runtimes:
        return [measure_family(runtimes, one, precision, blocks, known, Path(folder)) for one in measured]


def _by_name(found: Mapping[str, Timing | Refused]) -> dict[str, Timing | Refused]:
    return {name.partition(VARIANT)[2]: one for name, one in found.items()}


def _row_text(row: ModelRow) -> str:
    times = ", ".join(f"{name} {one * 1e3:.3f} ms" for name, one in row.seconds.items())
    return f"{row.model} × {row.batch}, {row.precision}: {times or 'nothing ran'}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
