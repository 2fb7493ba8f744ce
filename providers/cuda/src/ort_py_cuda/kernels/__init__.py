"""The kernels of this provider: faster than the array library's, or such as it cannot have. See `catalog`."""
