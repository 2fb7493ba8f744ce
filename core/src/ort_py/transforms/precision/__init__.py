"""Rules that change the element type a part of the graph computes in, for providers that ask for it."""
