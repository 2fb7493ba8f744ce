"""Attention as exporters write it: one operator with what belongs to it."""
