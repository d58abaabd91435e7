"""Access to one cluster: observation, planning, applying level by level, and pruning in reverse order."""
