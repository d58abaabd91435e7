"""Plans of a commit for people: its changes, when they start, what they wait for, and what deserves a warning."""
