"""A page in the browser for a user's own photos: name classes, adapt, classify, download."""
