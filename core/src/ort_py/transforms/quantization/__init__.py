"""Patterns of quantised models: integers stay integers."""
