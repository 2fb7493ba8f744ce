"""Constants: mapped or copied once, shared by content, in the dtype kernels want.

`weights` are the tensors, `weight_store` the process-wide place that finds those already there, `unpack` turns the
bytes of a file into the array in memory. It does not depend on graphs.
"""
