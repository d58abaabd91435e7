"""Simulation of commits over days and weeks: the real controller runs on a sandbox with a virtual clock."""
