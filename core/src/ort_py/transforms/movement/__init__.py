"""Operators that only move elements: merged, undone, or pushed to where fewer are left."""
