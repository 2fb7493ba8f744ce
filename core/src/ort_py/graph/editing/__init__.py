"""The only way to change a graph: `edit` implements the contract's `GraphEditor`.

`edit_state` and `positions` keep what is known about the graph true from one change to the next;
`new_nodes` makes nodes of templates, `moving` takes nodes out of nested graphs, `fusing` keeps the functions of fused
nodes, and `function_views` makes graphs of them, which providers see. Comes after `typing`, which types the new nodes;
used by `transforms`.
"""
