"""Seeing the daemon: health, metrics, the status page, and hooks by which a forge says that there is something new.

Whatever is asked here, nothing in the cluster or in Git changes by it; a hook only makes its sources be asked sooner. What is shown is a value made
from the last pass (`dashboard`); pure functions turn it into metrics and pages. Imported by `levelgate run` alone, when it listens.
"""
