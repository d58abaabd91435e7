"""Decisions of one reconciliation: due actions on each object, their order, and the causes that block actions.

All modules are pure.
"""
