"""The model in memory: read once from protobuf, checked, typed, changed, shown and written back.

In the order in which a model travels:

| folder | what it does |
|---|---|
| `reading` | path, bytes or message → the graph, functions inlined, external data confined to the model's folder |
| `weights` | constants: mapped or copied once, shared by content |
| `ir` | what all of it makes: `Model`, `Graph`, `Node`, `Value` |
| `checking` | which operator a node is, at which version, and every reason why a model is none |
| `typing` | types and shapes by inference |
| `view` | what plug-ins see |
| `editing` | the only way to change a graph |
| `writing` | back to ONNX |

It does not depend on providers, devices or plans. Import what you need from the module that has it.
"""
