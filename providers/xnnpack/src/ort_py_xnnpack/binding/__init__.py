"""XNNPACK's C API: declarations, the library, thread pools, subgraphs and the cache of packed weights."""
