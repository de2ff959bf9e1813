"""How fast this machine is, and how much faster than a plain loop over tasks."""
