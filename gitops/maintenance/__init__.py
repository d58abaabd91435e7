"""Checks of a cluster, and the removal of Levelgate from it.

`cluster_facts` reads the cluster. `cluster_check` draws conclusions. `uninstall` removes what Levelgate wrote.
"""
