"""Bytes and their movement: which copy serves which pair of devices.

Comes after `contracts`, before `planning`, which asks for the copy between two devices and makes it a step. It does not
depend on graphs or plans.
"""
