"""The way from a path, bytes or a message to the graph in memory.

In order: `sources` and `text` find the one protobuf message and explain why other input is not a model; `parse_graph`,
`attributes` and `tensors` turn it into `written` records without protobuf; `external_data` and `confined_open` open
files beside the model without a way out of its folder; `functions`, `build`, `scopes`, `names` and `order` make the
graph of the records, functions inlined, names unique, nodes sorted. `loader` is all of it in one call; `collection`
keeps the garbage collector out meanwhile. It is independent of schemas: what the nodes mean is asked in `checking`.
"""
