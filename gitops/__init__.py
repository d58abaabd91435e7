"""From Git, time and people to passes of the pipeline: sources, gates, the daemon and the command."""

__version__ = "0.1.0"
