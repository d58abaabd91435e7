"""Observed state as values: objects, their health, and the owners of their fields."""
