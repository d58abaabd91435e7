"""What the cluster keeps for us and for people: the record of each source, statuses, revisions, rollouts, and what people order."""
