"""The options of XnnpackExecutionProvider, named as onnxruntime names them; what is not given is the session's."""

from __future__ import annotations

from ort_py.contracts import OptionSpec

__all__ = ["OPTIONS"]

OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec("intra_op_num_threads", int, 0, "Threads of a run; 0 takes the session's."),
    OptionSpec(
        "few_bits_only",
        bool,
        False,
        "Take only subgraphs with products of weights of few bits that have scales of blocks.",
    ),
    OptionSpec("claim_small", bool, False, "Also take subgraphs that are faster without the call to XNNPACK."),
)
