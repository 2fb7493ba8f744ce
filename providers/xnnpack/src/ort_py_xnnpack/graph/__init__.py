"""A graph as it is described to XNNPACK: without functions, and with what is known of its integers."""
