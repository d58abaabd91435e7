"""Daemon: timers, hints and watch events, the work queue for their keys, the workers, and the reader of Git."""
