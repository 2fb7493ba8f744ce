"""Types and shapes of every value, with symbolic sizes.

`shapes` is the entrance. `inferred` types a graph by our own `rules`, or where these do not cover it by `inference`,
which runs onnx's inference on a stand-in without large weights; `inference_guard` keeps from that what would crash or
hang it, `inference_gaps` types what it cannot; `shape_data` and `shape_walk` follow computed shapes; `node_types` types
one node, `standard_types` one of an operator that ONNX defines; `type_merge` makes one type of what is inferred and
what is declared.
"""
