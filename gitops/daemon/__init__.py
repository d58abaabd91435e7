"""Daemon: timers, hints and watch events, the queue that they feed, the workers, and the reader of Git."""
