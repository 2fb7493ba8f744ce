"""CUDA graphs: runs of nodes recorded once for each shape signature, then launched as one piece of work.

With the provider's option ``enable_cuda_graph``. Reading order: `claims` (which nodes, and why not the others),
`program` (a region's nodes as steps), `region` (what is compiled: a state for each frame and shape signature),
`runs` (warm-up, recording and replay of whatever enqueues work), `recording` (one captured graph with its static
arrays), `inspection` (what a captured graph must not do).

What onnxruntime does with this option, and what is done here:

- There, all of a model's nodes must be on the GPU and its control flow absent, else the session is not made. Here the
  parts that can be captured are, and the rest runs as usual.
- There, inputs and outputs must be bound to the same addresses in each run. Here inputs are copied into arrays of the
  graph and outputs out of them, so that feeds may be anywhere and results belong to the caller.
- There, a graph is kept for each ``gpu_graph_id``, which the caller chooses for each shape, -1 for none. Here a graph
  is kept for each shape signature, so ids are not needed; a run with an unseen signature beyond the bound is not
  captured.
- There, the first run warms up and the second is captured, as here; sessions may run on one thread only. Here each
  frame has graphs of its own, so that several threads are safe.
"""

from __future__ import annotations

from ort_py_cuda.capture.claims import group_refusal, groups, owns
from ort_py_cuda.capture.region import CapturedRegion, compile  # noqa: A004 - the verb of the contract
from ort_py_cuda.capture.runs import CapturedRuns, Capturing

__all__ = ["CapturedRegion", "CapturedRuns", "Capturing", "compile", "group_refusal", "groups", "owns"]
