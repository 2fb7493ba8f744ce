"""Running plans: frames, the instructions steps become, control flow, and the executors that go through them.

Comes after `planning`. Reads plans, never changes one; knows no graph.
"""
