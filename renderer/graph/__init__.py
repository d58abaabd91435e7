"""Dependency graphs: topological levels, cycles and implied edges."""
