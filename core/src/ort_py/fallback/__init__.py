"""Reactions to a failing provider: named fallbacks, each in the session's report, none silent.

Selection and initialisation fallbacks happen in `discovery` while providers are chosen and created; assignment
fallback gives the nodes of a region that does not compile to the next provider. This room handles failures
of runs: `failure` describes what happened, `policy` decides whether it may be answered and names a session's states,
`breaker`, `circuits` and `lost_devices` remember what failed, `batches` splits a run, and `report` lists the events.
The engine applies them (`ort_py.engine.recovery`).
"""
