"""Maintenance windows: schedules, occurrences and verdicts. Pure; all instants are in UTC."""
