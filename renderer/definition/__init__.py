"""Compilation of one ResourceGraphDefinition: schema, resources, conditions, gates and status."""
