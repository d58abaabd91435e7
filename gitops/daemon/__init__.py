"""What starts passes and never ends: timers, hints and events, the queue between them and the work, and what is read of Git."""
