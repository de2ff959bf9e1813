"""The engine: the inner loop over the task axis."""
