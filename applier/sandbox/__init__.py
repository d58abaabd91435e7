"""An embedded Kubernetes API: right where it speaks, honest about what it leaves out.

Everything can be tried on it without a cluster, and tests against it take milliseconds. It is pure Python in one
process, and nothing runs in it. `api` answers requests; the other modules are its parts, from the objects up.
"""
