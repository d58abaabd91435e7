"""Rollouts: policies, waves, pace and bake, and the requests of people to hold, halt or continue. Pure."""
