"""Several clusters from one process: which there are, what goes to which, how each is reached, and who it is."""
