"""Operators on strings: joining, splitting, normalising, matching, tokenising and counting n-grams.

Families are modules of this package, listed in ``ort_py_array.FAMILIES`` like all others. Strings live on the host as
object arrays of Python strings, so all of these are host only (TfIdfVectorizer of numbers excepted), and what Python
offers for one string at a time is called for one string at a time.
"""
