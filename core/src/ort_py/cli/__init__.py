"""The command line: ``ort-py run|info|explain|providers`` and the commands that plug-ins contribute.

Comes last, beside `compat`: it may import every room, and nothing imports it. Results go to standard output, everything
else to standard error, so that ``--json`` can be piped.

| module | what it does |
|---|---|
| `main` | arguments, plug-ins' commands, exit codes |
| `run`, `info`, `explain`, `providers` | one command each |
| `sessions` | arguments of commands that open a session |
| `inputs`, `generation`, `pictures` | feeds from files, made up, and from pictures |
| `summaries` | values in a few numbers, and saving them |
| `description` | a model file described without a session |
| `output`, `progress` | tables and JSON; what is shown while a job takes long |
| `console` | the one way to the terminal |
"""
