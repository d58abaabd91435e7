"""Embedded Kubernetes API that answers like the real server.

With this API, a person can try Levelgate without a cluster, and tests run in milliseconds. The API is pure Python in a
single process, and starts no containers. `docs/adr/0009-sandbox.md` lists the omissions. The module `server` answers
requests, and the other modules of this package are parts of the API.
"""
