"""Recovery from failed runs: what is remembered of failures, and programs that others have replaced."""
