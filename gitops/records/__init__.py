"""Records in the cluster: sources, statuses, revisions, applied snapshots, rollouts, and requests of people."""
