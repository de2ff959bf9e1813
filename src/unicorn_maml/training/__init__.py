"""Pre-training and meta-training, and what it leaves on disk: checkpoints and run folders."""
