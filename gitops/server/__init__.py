"""HTTP server of the daemon: health, metrics, the status page, and webhooks of forges.

A request changes nothing in the cluster or in Git. A webhook only causes an early fetch. Pure functions make pages and
metrics from one value of the last reconciliation (`dashboard`). `levelgate run` imports this package only if it listens
at an address.
"""
