"""Results as tables and progress as bars."""
