"""Kubernetes REST API of the sandbox: a module for each verb, and the documents that describe the API."""
