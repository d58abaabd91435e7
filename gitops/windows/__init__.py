"""Maintenance windows: schedules, occurrences and verdicts. The functions are pure, and all instants are in UTC."""
