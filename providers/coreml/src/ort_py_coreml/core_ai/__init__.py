"""Core AI: the functions of MIL that the lowerings call, written with Core AI's, and its runtime.

Apple's `coreai.authoring` is the only interface that programs are written with. It has no loops.
"""
