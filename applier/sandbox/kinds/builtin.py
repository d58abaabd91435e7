"""The built-in kinds, from what the real API server publishes of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Any

from applier.sandbox.kinds.admission import COMPLETIONS
from applier.sandbox.kinds.decoding import Decoder, MisfitError
from applier.sandbox.kinds.defaults import OF_METADATA
from applier.sandbox.kinds.go_types import GoType, Structures
from applier.sandbox.kinds.registry import Fitted, ServedKind
from applier.sandbox.kinds.scale import OF_BUILT_IN
from applier.sandbox.kinds.strategies import COUNTING
from applier.sandbox.kinds.validation import RULES, by_schema
from applier.sandbox.merge import DEDUCED, MergeType, type_of_schema
from applier.sandbox.wire import StatusCause
from renderer import builtin_kinds
from renderer.builtin_kinds import BuiltinSchemas

Object = dict[str, Any]

_SERVED_ELSEWHERE = frozenset({("autoscaling", "v1")})
"""Versions that only a conversion could serve: the sandbox stores one version of a built-in kind."""


_IDENTITY = frozenset({"apiVersion", "kind", "metadata"})


class BuiltIn:
    """A `Model` by published schema; `form` None, where none is published, takes anything."""

    def __init__(
        self, kind: str, form: GoType | None, bundle: BuiltinSchemas, *, resource: str, has_status: bool
    ) -> None:
        self._resource = resource
        self._has_status = has_status and form is not None
        self._form = form
        self._definitions = bundle.definitions
        self._decoder = Decoder(kind)

    @property
    def form(self) -> GoType | None:
        return self._form

    @property
    def schema(self) -> Mapping[str, Any]:
        return self._form.schema if self._form else {}

    @cached_property
    def blank(self) -> Object:
        return self._form.zero if self._form else {}

    @cached_property
    def type(self) -> MergeType:
        if not self._form:
            return DEDUCED
        return type_of_schema(self.schema, crd=False, definitions=self._definitions)

    def resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        return structures().form(schema).schema

    @property
    def generation(self) -> bool:
        return self._resource in COUNTING

    def fit(self, obj: Object, *, merged: bool = False) -> Fitted:
        if not self._form:
            return Fitted(obj)
        unknown: list[str] = []
        content = {name: value for name, value in obj.items() if name not in _IDENTITY}
        try:
            found = self._decoder.structure(self._form, content, "", unknown)
        except MisfitError as error:
            return Fitted(obj, mistake=str(error))
        return Fitted({**found, **{name: obj[name] for name in _IDENTITY}}, tuple(unknown))

    def default(self, obj: Object, live: Object | None) -> Object:
        change = OF_METADATA.get(self._resource)
        if not change:
            return obj
        obj = {**obj, "metadata": dict(obj["metadata"])}
        change(obj)
        return obj

    def complete(self, obj: Object, live: Object | None) -> Object:
        change = COMPLETIONS.get(self._resource)
        if live is None and self._has_status:
            assert self._form
            obj = {**obj, "status": self._decoder.structure(self._form.fields["status"].form, {}, "", [])}
        if change:
            obj = copy.deepcopy(obj)
            change(obj, live)
        return obj

    def validate(self, obj: Object, live: Object | None) -> list[StatusCause]:
        rule = RULES.get(self._resource)
        found = list(by_schema(self._form, obj)) if self._form else []
        if rule:
            named = {mistake.field for mistake in found}
            found += [mistake for mistake in rule(obj, live) if mistake.field not in named]
        return found


@cache
def structures() -> Structures:
    """How all built-in kinds are held."""
    return Structures(builtin_kinds.bundle(), builtin_kinds.structures())


@cache
def built_in_kinds() -> tuple[ServedKind, ...]:
    """Every built-in kind that is stored as objects. They are values: all sandboxes of a process share them."""
    return tuple(_kinds(builtin_kinds.bundle()))


def _kinds(bundle: BuiltinSchemas) -> Iterator[ServedKind]:
    for group in bundle.discovery:
        name = group["metadata"].get("name", "")
        for version in group["versions"]:
            if (name, version["version"]) not in _SERVED_ELSEWHERE:
                for entry in version["resources"]:
                    if "list" in entry["verbs"] and "create" in entry["verbs"]:
                        yield _kind(bundle, name, version["version"], entry)


def _kind(bundle: BuiltinSchemas, group: str, version: str, entry: Mapping[str, Any]) -> ServedKind:
    kind, plural = entry["responseKind"]["kind"], entry["resource"]
    resource = f"{plural}.{group}" if group else plural
    served = {found["subresource"] for found in entry.get("subresources", ())}
    subresources = tuple(name for name in ("scale", "status") if name in served)
    form = structures().kind(group, version, kind)
    return ServedKind(
        group,
        version,
        kind,
        plural,
        entry["scope"] == "Namespaced",
        BuiltIn(kind, form, bundle, resource=resource, has_status="status" in served),
        entry.get("singularResource", ""),
        f"{kind}List",
        tuple(entry["verbs"]),
        tuple(entry.get("shortNames", ())),
        tuple(entry.get("categories", ())),
        subresources,
        scale=OF_BUILT_IN if "scale" in served else None,
    )


@cache
def scale_kind() -> ServedKind:
    """The kind that the scales of all other kinds are."""
    form = structures().kind("autoscaling", "v1", "Scale")
    model = BuiltIn("Scale", form, builtin_kinds.bundle(), resource="scales.autoscaling", has_status=False)
    return ServedKind("autoscaling", "v1", "Scale", "scales", True, model)
