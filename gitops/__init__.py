"""From Git, time and people to passes of the pipeline: sources, gates, the daemon and the command."""
