"""Everything that touches one cluster: observe it, plan changes, apply them level by level, prune in reverse order."""
