"""Prepared models on disk, so that the next session starts from there.

Two kinds of entries share one folder (`location`, `store`, `format`): prepared models (`model_record` and `constants`,
found by `circumstances` and `model_source`, written by `writing`) and what providers compiled (`artifacts`). It does
not depend on providers or sessions.
"""
