"""The options of DnnlExecutionProvider; threads and precision are the session's.

onnxruntime's provider of this name has one more, ``use_arena``, which the core's table of known names answers.
"""

from __future__ import annotations

from ort_py.contracts import OptionSpec

__all__ = ["OPTIONS"]

OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec(
        "claim_small",
        bool,
        False,
        "Take subgraphs too that are faster without the call to oneDNN, as tests of the provider want it.",
    ),
)
