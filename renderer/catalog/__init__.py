"""The catalog of one commit: definitions, instances and plain objects, with the problems of its files."""
