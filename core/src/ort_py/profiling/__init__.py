"""Measurement of times: a recorder for the steps of runs, and its export as a Chrome trace.

Comes beside `execution`, which tells the recorder about steps only where one is set: off costs nothing.
"""
