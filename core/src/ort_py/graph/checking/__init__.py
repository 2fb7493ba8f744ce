"""Every reason why a model is none, in one message.

`domains`, `resolved_schema` and `schema` say which operator a node is and at which version; `validate`,
`nested_checks` compares the graph with that. `verify` checks the invariants of the graph itself
after a change.
"""
