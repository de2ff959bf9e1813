"""Results as tables, figures and pages, and progress as bars."""
