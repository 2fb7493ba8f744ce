"""Deciding before running: the order of steps, the slot and device of every value, copies, waits and lifetimes.

Comes after `partition` and the compilation of regions, before `execution`, which runs plans and never changes one.
Reads graphs and assignments; keeps neither: a plan holds plain data and callables.
"""
