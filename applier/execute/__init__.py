"""Execution of one round of a plan: writes, deletions, and the retries of both."""
