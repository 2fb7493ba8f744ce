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
        "Also take subgraphs that are faster without the call to oneDNN, for tests of the provider.",
    ),
    OptionSpec(
        "precision",
        str,
        "",
        "Precision of float32 models, if it is not to be that of `SessionOptions.precision`.",
        ("", "float32", "bfloat16", "float16"),
    ),
)
