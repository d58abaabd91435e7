"""One pass, from the first look at the cluster to its last status. `reconcile` has its steps in order; the rest is what they decide and know."""
