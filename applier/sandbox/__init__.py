"""Embedded Kubernetes API that answers as the real server does.

With it, Levelgate can be tried without a cluster, and tests run in milliseconds. The API is pure Python in a single
process, and starts no containers. docs/adr/0009-sandbox.md says what else it leaves out. Module `server` answers
requests; the other modules are parts of the API.
"""
