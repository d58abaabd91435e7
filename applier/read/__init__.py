"""Reads of a cluster: lists, single objects, watches, and the traces Levelgate has left."""
