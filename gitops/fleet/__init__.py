"""A fleet: the clusters that one process reconciles, with their declarations, objects, connections and identities."""
