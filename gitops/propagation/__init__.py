"""When changes may move: maintenance windows.

`fields` reads windows from Git, `occurrences` knows when each of them is active, `judge` says what may be done to a target, `lint` what is
probably not meant. Everything is pure: the time comes in as a value, all instants are UTC.
"""
