"""Decisions of one reconciliation: which changes may start now, and why the others may not. Pure; all instants are UTC."""
