"""Access to one cluster: observation, plans, applies level by level, and prunes in reverse order."""
