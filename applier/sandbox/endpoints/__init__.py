"""Endpoints of the sandbox: in process, over HTTP, and a switch that cuts it off."""
