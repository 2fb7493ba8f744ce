"""The options of CoreMLExecutionProvider. The names in capitals are those of onnxruntime's provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ort_py.contracts import OptionSpec
from ort_py.errors import EPFail, OptionError

__all__ = ["OPTIONS", "check", "check_package", "unfit_package"]

OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec(
        "backend",
        str,
        "auto",
        "What runs regions: Core ML, Core AI, or the former on macOS and the latter elsewhere.",
        ("auto", "coreml", "coreai"),
    ),
    OptionSpec(
        "MLComputeUnits",
        str,
        "ALL",
        "Hardware that Core ML may use.",
        ("ALL", "CPUOnly", "CPUAndGPU", "CPUAndNeuralEngine"),
    ),
    OptionSpec("ModelFormat", str, "MLProgram", "Form of Core ML's models; ML programs only.", ("MLProgram",)),
    OptionSpec(
        "deployment_target",
        str,
        "macOS14",
        "Oldest system that packages are written for; weights of 4 bits or with scales for blocks need macOS 15.",
        ("macOS14", "macOS15"),
    ),
    OptionSpec("EnableOnSubgraphs", bool, False, "Also take nodes of the bodies of If, Loop and Scan."),
    OptionSpec(
        "SpecializationStrategy",
        str,
        "Default",
        "What Core ML prepares models for: the default, or fast predictions.",
        ("Default", "FastPrediction"),
    ),
    OptionSpec("ProfileComputePlan", bool, False, "Log the hardware that Core ML plans each operator for."),
    OptionSpec(
        "AllowLowPrecisionAccumulationOnGPU", bool, False, "Let Core ML add in float16 on the GPU where it computes so."
    ),
    OptionSpec("RequireStaticInputShapes", bool, False, "Leave nodes with unknown sizes to other providers."),
    OptionSpec(
        "ModelCacheDirectory", str, "", "Folder in which compiled models are kept; they are compiled again if empty."
    ),
    OptionSpec(
        "states",
        str,
        "",
        "Pairs such as past.*=present.* of inputs and outputs that become states of a package that is written.",
    ),
    OptionSpec(
        "shapes",
        str,
        "",
        "Sets of shapes such as x:1x320,mask:1x320;x:1x640,mask:1x640: those that a written package takes.",
    ),
    OptionSpec("max_dimension", int, 4096, "Largest size of an axis whose size is not known before a run."),
    OptionSpec("max_regions", int, 8, "Leave a graph to other providers if it would fall into more regions than this."),
    OptionSpec("claim_small", bool, False, "Also take subgraphs that are faster without the call to Core ML."),
)

_MOST = 2**31 - 1
"""The largest size that Core ML counts."""


def check(options: Mapping[str, Any]) -> None:
    """Check the numbers among validated options.

    Raises:
        OptionError: One is out of its range.
    """
    for name in ("max_dimension", "max_regions"):
        if not 1 <= options[name] <= _MOST:
            raise OptionError(
                f"{name} is {options[name]}.", why="it counts from 1", fix=f"Set it to a number from 1 to {_MOST}."
            )


def check_package(name: str, written: str, why: str) -> None:
    """Check that an option is set only where a package of Core ML is written.

    Args:
        name: The option.
        written: The ending of the file that is written; empty in sessions that run models.
        why: The reason why it has no meaning elsewhere.

    Raises:
        OptionError: None is written.
    """
    if written != ".mlpackage":
        raise OptionError(
            f"{name} is set, but no package of Core ML is written.",
            why=why,
            fix="leave it out, or write a package: ort-py compile MODEL --provider coreml -o out.mlpackage",
        )


def unfit_package(name: str, reason: str, fix: str) -> EPFail:
    """Return the error for a model whose package cannot have what an option says."""
    return EPFail(f"The package cannot have these {name}.", why=(reason,), fix=fix)
