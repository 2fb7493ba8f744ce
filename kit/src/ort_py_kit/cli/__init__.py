"""The commands that the kit adds to ``ort-py``."""
