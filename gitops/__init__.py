"""Reconciliation of clusters with Git: sources, gates, the daemon and the command line."""

__version__ = "0.1.0"
