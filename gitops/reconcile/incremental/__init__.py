"""Partial reconciliation: dependencies of each root, admissible scopes, and the last known state of the cluster."""
