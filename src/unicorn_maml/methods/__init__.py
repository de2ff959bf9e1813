"""Algorithms, one file each. A method maps a batch of tasks to query logits, differentiably."""
