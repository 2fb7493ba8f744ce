"""The options of DnnlExecutionProvider; the threads are those of the session, and so is the precision if none is given
here.

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
    OptionSpec(
        "precision",
        str,
        "",
        "What float32 models are computed in, where it is not to be `SessionOptions.precision`.",
        ("", "float32", "bfloat16", "float16"),
    ),
)
