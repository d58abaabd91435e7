"""Endpoints of a sandbox: in process and over HTTP, with a switch that cuts off the sandbox."""
