"""Reads of a cluster: lists, single objects, watches, and the traces that Levelgate leaves."""
