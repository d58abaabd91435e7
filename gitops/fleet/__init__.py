"""Several clusters from one process: which there are, how they are reached, who they are. Nothing here decides about instances."""
