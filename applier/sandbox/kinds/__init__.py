"""Kinds that the sandbox serves: names, metadata, defaults, admission and validation."""
