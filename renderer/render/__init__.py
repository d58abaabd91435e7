"""Rendering of sources and instances into manifests sorted by level."""
