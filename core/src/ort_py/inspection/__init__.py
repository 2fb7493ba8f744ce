"""Inspection: what can be asked of sessions and engines beside running them.

`placement/` reports where each node runs, `comparison/` runs a model in two ways, `verification/` repeats a share of a
session's runs, `diagnosis/` tries providers in processes of their own. `tuning` and `calibration` measure, `warmup`
prepares, `fingerprint` and `selection_explanation` tell what a session is and why.
"""
