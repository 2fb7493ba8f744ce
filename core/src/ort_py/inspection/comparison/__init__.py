"""Two ways of running a model compared value by value, and the pass or node found that makes them differ.

Begin with `compare`. Comes after `session`: a comparison opens sessions of its own.
"""
