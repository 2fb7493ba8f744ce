"""Verification: a share of a session's runs is repeated by the NumPy provider, and the results are compared."""
