"""Endpoints of a sandbox: in process and over HTTP, and a switch that cuts the sandbox off."""
