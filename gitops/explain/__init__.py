"""Answers from the cluster's own records: state, causes, history, trees, and waiting for a state."""
