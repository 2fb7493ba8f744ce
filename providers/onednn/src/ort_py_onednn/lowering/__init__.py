"""From fused operations and shapes to oneDNN primitives in a plan."""
