"""Kubernetes REST API of the sandbox: one module for each verb, and the documents that describe it."""
