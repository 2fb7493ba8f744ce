"""Nodes, constants and outputs that need not be there."""
