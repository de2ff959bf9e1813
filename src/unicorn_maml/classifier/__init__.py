"""A classifier for a user's own photos: fit, predict, save, load, check."""
