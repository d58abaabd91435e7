"""Checks of a cluster, and the removal of Levelgate from a cluster.

`cluster_facts` reads the cluster, and `cluster_check` draws conclusions from the facts. `uninstall` removes Levelgate's
records and metadata.
"""
