"""Finding the code for a node: registering kernels, matching them, binding one to a node.

Comes after `contracts`, before `partition` (which asks whether there is a kernel) and `planning` (which binds it). It
does not depend on graphs, plans or devices beyond what a `NodeSpec` says.
"""
