"""The user's interface. `ort_py` itself re-exports the public names lazily; import from there.

Comes last: it may import every engine room, and nothing but `compat` and `cli` imports it.
"""
