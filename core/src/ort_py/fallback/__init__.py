"""Reactions to a failing provider: named fallbacks, each in the session's report, none silent.

Selection and initialisation fallbacks happen in `discovery` while providers are chosen and created; assignment
fallback gives the nodes of a region that does not compile to the next provider. What is here is for runs: `failure`
reads what happened, `policy` says whether it may be answered, `breaker`, `circuits` and `lost_devices` remember what
failed, `batches` splits a run, `states` and `report` tell of it. The engine applies them
(`ort_py.engine.recovery`).
"""
