"""Build of the C module, which `pyproject.toml` cannot describe: it is compiled when the wheel is built."""

from setuptools import setup

setup(cffi_modules=["build_native.py:ffi"])
