"""Pictures and detection: sampling at fractional positions, regions of interest, boxes, decoding."""
