"""The analyses of the paper, one file each."""
