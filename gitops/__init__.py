"""From Git, time and people to reconciliations: sources, gates, the daemon and the command line."""

__version__ = "0.1.0"
