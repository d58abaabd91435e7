"""Rendering of the files of one commit to manifests, ordered by level.

Rendering is pure, so equal files yield equal bytes.
"""
