"""Measurement of times: a recorder for the steps of runs, and its export as a Chrome trace.

Comes beside `execution`, which reports steps to the recorder only where one is set: off costs nothing.
"""
