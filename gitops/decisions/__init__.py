"""How a change moves through instances: the calendar, pace, health and people.

`fields` reads windows from Git, `occurrences` knows when each of them is active, `judge` says what may be done to a target, `lint` what is
probably not meant. `policy` reads policies, `shapes` says how far a rollout may go, `rollout` which items may move. Everything is pure: the time
comes in as a value, all instants are UTC.
"""
