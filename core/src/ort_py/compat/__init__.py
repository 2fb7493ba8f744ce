"""Running applications written for onnxruntime. Comes last, beside `cli`; nothing imports it but `as_onnxruntime`."""
