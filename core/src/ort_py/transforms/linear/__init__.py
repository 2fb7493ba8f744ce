"""Convolutions and products: what stands around them folded into their weights, or into one fused operator."""
