"""The folder of oneDNN's library. Nothing is imported from here: `ort-py-onednn` looks for the file in this folder."""
