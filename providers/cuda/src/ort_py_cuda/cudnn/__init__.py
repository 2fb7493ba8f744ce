"""cuDNN: graphs through its front end, and its older calls for what the front end has no node for.

The files, in order: `element_types`, `errors`, `choice`, `frontend` and `library` (the two doors), `handles`,
`workspace`, `graphs` (what is computed, as data), `lowering` (that data given to the front end), `plans` (built once,
kept), `descriptors` and `legacy` (the older calls), `recurrence` (RNNs). Nothing here knows ONNX: kernels do.
"""
