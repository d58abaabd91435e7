"""From rendered manifests to a cluster that matches them: observe, plan, apply level by level, prune in reverse."""
