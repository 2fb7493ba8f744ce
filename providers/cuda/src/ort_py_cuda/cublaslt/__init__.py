"""Matrix products by cuBLASLt: pure descriptions of calls, the binding of the library, plans that are kept.

Reading order: `elements` (types), `layout` (row-major products as column-major calls), `binding` (the C functions),
`plans` (descriptors and chosen algorithms), `products` (arrays in, arrays out). Up to `plans` nothing here knows CuPy.
"""
