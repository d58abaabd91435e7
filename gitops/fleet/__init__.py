"""Several clusters from one process: their declarations, their objects, the connections, and their identities."""
