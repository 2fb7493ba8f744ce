"""Operators that generate text by running graphs of their node: a decoder, and an encoder where there is one.

`greedy`, `sampling` and `beam_search` hold the kernels. They read their inputs with `arguments`, feed the graphs with
`gpt_feeds` or `pair_feeds`, change scores with `processors` and keep beams with `beams`. Tokens and scores are on the
host, where NumPy works on them; states of the models stay where the provider has its arrays. One call of the decoder a
token is what generating means; what happens between two calls is array operations over all batch entries and beams.
"""
