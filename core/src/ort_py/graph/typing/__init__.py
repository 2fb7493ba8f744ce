"""Types and shapes of every value, with symbolic sizes.

`shapes` is the entrance. `inference` runs onnx's inference on a stand-in without large weights; `inference_guard`
keeps from it what would crash or hang it, `inference_gaps` types what it cannot; `shape_data` and `shape_walk` follow
computed shapes; `node_types` types one node, and `onnx_types` one of an operator that ONNX defines; `type_merge` makes
one type of what is inferred and what is declared.
"""
