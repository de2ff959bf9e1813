"""Figures of studies and runs, drawn from their JSON files alone."""
