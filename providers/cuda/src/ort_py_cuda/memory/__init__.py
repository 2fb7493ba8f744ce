"""Memory of the device and of the host next to it, and copies between them.

In reading order: `failures` says what CUDA's errors mean, `pools` is where device memory comes from, `pinned` the host
memory that the device reads by itself, `staging` waits that nothing overtakes, `allocator` and `transfer` what the core
is given.
"""
