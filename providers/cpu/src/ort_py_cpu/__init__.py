"""CPUExecutionProvider for ort-py, on NumPy.

Discovery imports `ort_py_cpu.plugin` only; nothing here is imported before a session asks for the provider.
"""
