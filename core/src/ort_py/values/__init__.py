"""Values as users hold them, with their types and places: OrtValue, SparseTensor, devices and memory descriptions.

Slots never hold one of these; `engine.feeds` and the bindings unwrap them at the border. Reading order: `device_table`,
`device`, `memory_info`, `element_types`, `dlpack`, `sparse`, `copying`, `held_value`, `ort_value`, `vector`.
"""
