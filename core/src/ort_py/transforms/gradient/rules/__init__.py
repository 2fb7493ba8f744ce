"""Derivative rules, a file a family. Every rule writes operators that have rules themselves."""
