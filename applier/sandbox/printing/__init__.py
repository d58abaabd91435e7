"""Representations of objects for kubectl: tables, columns and cells."""
