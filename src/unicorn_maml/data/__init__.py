"""Images on disk become a store; a store and a number become a task."""
