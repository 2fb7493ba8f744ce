"""Constraints of operators, a module a family. Each module has a table, which `ort_py.constraints.table` joins."""
