"""A commit whose windows hold nobody, to bring about the base: how it once came there is not what is simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import DeclaredObject
from renderer.kinds import WINDOW

_ALWAYS_ACTIVE: Final = {"once": [{"start": "1970-01-01T00:00", "end": "2400-01-01T00:00"}]}
_NEVER_ACTIVE: Final = {"once": [{"start": "1970-01-01T00:00", "end": "1970-01-02T00:00"}]}


def open_windows(catalog: Catalog) -> Catalog:
    """With every Allow active for ever, no Deny ever, and no policy. Names stay, for the gates that ask for them."""
    windows = [rule for rule in catalog.rules if rule.group_kind.kind == WINDOW]
    return replace(catalog, rules=tuple(map(_without_effect, windows)))


def _without_effect(rule: DeclaredObject) -> DeclaredObject:
    spec: Mapping[str, Any] = rule.manifest.get("spec") or {}
    kept_fields = {name: spec[name] for name in ("kind", "timeZone") if name in spec}
    schedule = _ALWAYS_ACTIVE if spec.get("kind") == "Allow" else _NEVER_ACTIVE
    return replace(rule, manifest={**rule.manifest, "spec": {**kept_fields, "schedule": schedule}})
