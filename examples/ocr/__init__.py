"""Read the text in a picture with ort-py: PP-OCRv4's detector, direction classifier and recogniser.

In the order a picture travels: `picture` (the sample), `detection` (probability map), `regions` (boxes out of the map),
`crops` (straightened lines), `direction` (which are upside down), `recognition` (text), `pipeline` (all of it, timed),
`drawing` (boxes and text on a picture), `__main__` (the command).

Pre- and post-processing are NumPy and Pillow. `runtime` is the only module that names a runtime: everything else takes
whatever has `run` and `get_modelmeta`, so that the same pipeline can be run by two runtimes and compared.
"""
