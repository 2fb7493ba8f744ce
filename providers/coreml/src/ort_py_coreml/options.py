"""The options of CoreMLExecutionProvider. The names in capitals are those of onnxruntime's provider."""

from __future__ import annotations

from ort_py.contracts import OptionSpec

__all__ = ["OPTIONS"]

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
    OptionSpec("RequireStaticInputShapes", bool, False, "Leave nodes with unknown sizes to other providers."),
    OptionSpec(
        "ModelCacheDirectory", str, "", "Folder in which compiled models are kept; they are compiled again if empty."
    ),
    OptionSpec("max_dimension", int, 4096, "Largest size of an axis whose size is not known before a run."),
    OptionSpec("max_regions", int, 8, "Leave a graph to other providers if it would fall into more regions than this."),
    OptionSpec("claim_small", bool, False, "Also take subgraphs that are faster without the call to Core ML."),
)
