"""BLAKE2b without OpenSSL, which importing `hashlib` loads: 2 ms of every start.

A leaf: knows no file and no model.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b  # the interpreter's own implementation, which hashlib exports under the same name
except ImportError:  # another interpreter than CPython
    from hashlib import blake2b

__all__ = ["blake2b"]
