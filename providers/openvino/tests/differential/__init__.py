"""Random models of one node, run by OpenVINO and by the NumPy provider alone."""
