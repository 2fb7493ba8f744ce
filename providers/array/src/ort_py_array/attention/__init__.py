"""The attention family: scaled dot-product attention and what stands around it in a decoder.

`core` computes attention, `visibility` says which keys a query sees; `attention` and `flex_attention` are ONNX's
operators over them. `rotary_embedding`, `tensor_scatter`, `swiglu`, `linear_attention` and `causal_convolution` declare
the operators of their names; each has a function without a node that the operators of `com.microsoft` share.
"""
