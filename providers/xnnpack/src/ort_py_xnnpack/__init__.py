"""XnnpackExecutionProvider for ort-py: whole regions on XNNPACK, for ARM processors, Apple silicon and x86-64.

Discovery imports `ort_py_xnnpack.plugin` only; the library is opened when a session asks for the provider.
"""
