"""The conformance suites: pytest classes that an author subclasses, one file a question.

`base` holds the provider under test. Of a provider: `listing` (light, probed, described), `options`, `capability` (what
it claims), `results` (ONNX's cases and random graphs), `versions` (operators at each version that it claims),
`lifetimes` (whose memory an output is), `threads`, `growth` (memory over many runs), `shapes`, `artifacts`; `provider`
puts them together. `allocator`, `transfer` and `transform` ask about memory, copies and graph transforms. Each failure
says what was found and what to change. Needs pytest.
"""
