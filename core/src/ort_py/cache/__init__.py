"""Compiled artifacts on disk, so that a region compiled once is restored the next time.

Used by the session between `partition` and `planning`. Knows no provider: an artifact is bytes under a key.
"""
