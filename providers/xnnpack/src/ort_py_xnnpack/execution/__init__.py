"""Compiled regions, their instances, and the builder that describes a region to XNNPACK."""
