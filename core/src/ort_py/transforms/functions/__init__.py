"""Functions that exporters spell out in small operators: activations, normalisations, softmax."""
