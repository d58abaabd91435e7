"""Plans of a commit for people: the changes, their start times, their obstacles, and warnings."""
