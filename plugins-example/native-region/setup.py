"""What `pyproject.toml` has no word for: the C module, compiled when the wheel is built."""

from setuptools import setup

setup(cffi_modules=["build_native.py:ffi"])
