"""Rendering of the files of one commit to manifests, ordered by level.

Rendering is pure. Equal files yield equal bytes.
"""
