"""Decisions about one reconciliation: actions due on each object, their order, and what blocks the others. Pure."""
