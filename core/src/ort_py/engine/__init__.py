"""The engine: what stands behind a session. It chooses providers, prepares a model for them, and runs it.

The parts, in the order in which a model meets them:

* `provider_choice`, `contributions`, `participants`: the providers of a session and what they bring.
* `loading`, `preparation`, `assembly`: from a model's file to a program; `session_cache` shortens the way.
* `runner`: runs a program; `feeds` is its border with the caller.
* `recovery/`: what happens when a run fails.

The engine knows neither sessions nor reports for people; both stand above it.
"""
