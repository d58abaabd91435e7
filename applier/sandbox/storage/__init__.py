"""Storage of the sandbox: objects, their history, and persistence on disk."""
