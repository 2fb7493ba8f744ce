"""An operator for ort-py: `schema` says what it looks like, `kernels` computes it, `plugin` contributes both."""
