"""The assignment of nodes to providers: ranked providers claim nodes, and the partitioner makes regions, compares costs
and explains.

Comes after `transforms`, before `planning`. Reads graphs and never changes them. It learns about devices only from what
providers report.
"""
