"""Recovery from failed runs.

* `state`: what an engine remembers of failures.
* `answers`: the state machine that decides how a failed run is answered.
* `exchange`: exchanges an engine's program; `retired_programs` releases the former one when its last run has ended.
* `split_runs`: runs in parts where memory is short.
"""
