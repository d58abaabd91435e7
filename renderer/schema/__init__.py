"""Schemas of instances: SimpleSchema to OpenAPI v3, defaults, validation, and compatibility of changes.

A schema is plain JSON and structural, because Kubernetes requires structural schemas. No function changes a finished
schema.
"""

from renderer.schema.cel_rules import BrokenRule, Evaluate, broken_rules, rule_mistakes
from renderer.schema.compatibility import SchemaChange, compatibility
from renderer.schema.defaults import apply_defaults
from renderer.schema.errors import SchemaErrors, SchemaMistake
from renderer.schema.simple_schema import to_openapi
from renderer.schema.union import NoUnionError, union
from renderer.schema.validation import validate

__all__ = [
    "BrokenRule",
    "Evaluate",
    "NoUnionError",
    "SchemaChange",
    "SchemaErrors",
    "SchemaMistake",
    "apply_defaults",
    "broken_rules",
    "compatibility",
    "rule_mistakes",
    "to_openapi",
    "union",
    "validate",
]
