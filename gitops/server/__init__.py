"""HTTP server of the daemon: health, metrics, the status page, and webhooks of forges.

A request changes nothing in the cluster or in Git. A webhook only causes an early fetch. Pages and metrics are made by
pure functions from one value of the last reconciliation (`dashboard`). Only `levelgate run` imports this package, when
it listens.
"""
