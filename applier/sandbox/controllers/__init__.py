"""Controllers of the sandbox: garbage collection, namespaces, CRDs and scripted workloads."""
