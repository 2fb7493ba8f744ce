"""`ai.onnx.preview.training.Gradient` as ordinary nodes: reverse-mode differentiation of the graph.

`lowering` finds the Gradient nodes and replaces each: `request` checks what one asks for, `subgraph` reads what lies
between `xs`, `zs` and `y`, `feeding` copies it where other values are fed, `backward` goes through it in reverse with
the rules of `rules/`, which write nodes through `builder`. Runs right after types are inferred, whatever the
optimisation level, because transforms may rename or remove the values that Gradient names.
"""
