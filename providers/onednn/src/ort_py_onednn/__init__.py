"""DnnlExecutionProvider for ort-py: whole subgraphs on oneDNN, the fast way to run float32 models on an x86-64 CPU.

Discovery imports `ort_py_onednn.plugin` only; the library is opened when a session asks for the provider.
"""
