"""Maintenance windows: their schedules, occurrences and verdicts. Pure; all instants are UTC."""
