"""One reconciliation, from the first read of the cluster to its last status. `reconciler` has the steps in order."""
