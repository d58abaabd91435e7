"""Simulation of commits over days and weeks. The controller itself runs on a sandbox with a virtual clock."""
