"""Who runs what: ranked providers claim nodes, the partitioner makes regions, asks what pays, and explains.

Comes after `transforms`, before `planning`. Reads graphs, never changes them; knows no device, only what providers
say of theirs.
"""
