"""Plans at work: memory, packed weights, instances that run."""
