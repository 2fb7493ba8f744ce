"""Graph transforms that ship with the core, and the pipeline that runs them and those of plug-ins.

A transform sees a graph through the contracts only, changes it through `GraphEditor`, keeps no state, visits nested
graphs, and says in its report why a near match was left alone. `builtin` lists them; one family is one file. To add
one: subclass `RewriteRule` or `GraphTransform`, list it in `builtin`, test it as `core/tests/transforms` does.
"""
