"""Answers from the records in the cluster: state, causes, history, trees, and the wait for a state."""
