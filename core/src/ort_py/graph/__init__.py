"""The model in memory: read once from protobuf, checked, typed, changed, shown and written back.

In the order in which a model travels:

| module | what it does |
|---|---|
| `sources`, `text` | path, bytes or message → one protobuf message, a fingerprint, clear errors for what is no model |
| `parse_graph`, `attributes`, `tensors` | protobuf → `written` records without protobuf; tensors go to the store |
| `external_data`, `confined_open` | files beside the model, opened without a way out of its folder |
| `weights`, `weight_store`, `unpack` | constants: mapped or copied once, shared by content, in the dtype kernels want |
| `functions`, `build`, `scopes`, `names`, `order` | records → `ir`: functions inlined, names unique, nodes sorted |
| `loader` | the above in one call |
| `ir` | what all of it makes: `Model`, `Graph`, `Node`, `Value` |
| `domains`, `resolved_schema`, `schema` | which operator a node is, and at which version |
| `validate`, `nested_checks`, `equation_check` | every reason why a model is none, in one message |
| `protos`, `shapes` | types and shapes by inference |
| `view`, `edit` | what plug-ins see, and the only way to change a graph |
| `serialize` | back to ONNX |

Knows nothing of providers, devices or plans. Import what you need from the module that has it.
"""
