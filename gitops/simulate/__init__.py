"""Simulation of commits over days and weeks, by the controller itself on a sandbox with a virtual clock."""
