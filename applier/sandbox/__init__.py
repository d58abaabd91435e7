"""Embedded Kubernetes API, which answers as the real server does and says what it leaves out.

It makes it possible to try everything without a cluster, and lets tests run in milliseconds. It is pure Python in a
single process, and starts no containers. `server` answers requests; the other modules are its parts.
"""
