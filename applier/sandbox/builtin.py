"""The built-in kinds, from what the real API server publishes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from typing import Any

import orjson

from applier.sandbox.decoding import Decoder, MisfitError
from applier.sandbox.defaults import COMPLETED, DEFAULTS, Change, complete
from applier.sandbox.kinds import Fitted, Kind
from applier.sandbox.merge import DEDUCED, Type, type_of_schema
from applier.sandbox.validation import RULES, by_schema
from applier.sandbox.wire import Mistake
from renderer.schemas import Bundle

Object = dict[str, Any]

_COUNTING = frozenset(
    "controllerrevisions.apps cronjobs.batch customresourcedefinitions.apiextensions.k8s.io daemonsets.apps "
    "deployments.apps ingresses.networking.k8s.io jobs.batch networkpolicies.networking.k8s.io "
    "poddisruptionbudgets.policy pods replicasets.apps replicationcontrollers statefulsets.apps "
    "ingressclasses.networking.k8s.io validatingwebhookconfigurations.admissionregistration.k8s.io "
    "mutatingwebhookconfigurations.admissionregistration.k8s.io flowschemas.flowcontrol.apiserver.k8s.io "
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io priorityclasses.scheduling.k8s.io "
    "validatingadmissionpolicies.admissionregistration.k8s.io "
    "validatingadmissionpolicybindings.admissionregistration.k8s.io".split()
)
"""Kinds whose objects have metadata.generation."""

_SERVED_ELSEWHERE = frozenset({("autoscaling", "v1")})
"""Versions that only a conversion could serve: the sandbox stores one version of a built-in kind."""


class BuiltIn:
    """A `Model` by published schema. `plain` kinds, whose schema is not published, take anything."""

    def __init__(self, resource: str, kind: str, schema: Mapping[str, Any] | None, bundle: Bundle) -> None:
        self._resource = resource
        self.schema: Mapping[str, Any] = schema or {}
        self._definitions = bundle.definitions
        self._decoder = Decoder(kind, bundle.definitions)
        self._fields: Mapping[str, Any] = schema.get("properties", {}) if schema else {}

    @cached_property
    def type(self) -> Type:
        if not self.schema:
            return DEDUCED
        return type_of_schema(self.schema, crd=False, definitions=self._definitions)

    def resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._decoder.resolve(schema)

    @property
    def generation(self) -> bool:
        return self._resource in _COUNTING

    def fit(self, obj: Object) -> Fitted:
        if not self.schema:
            return Fitted(obj)
        unknown: list[str] = []
        found: Object = {}
        try:
            for name, value in obj.items():
                field = self._fields.get(name)
                if name in ("apiVersion", "kind", "metadata"):
                    found[name] = value
                elif field is None:
                    unknown.append(name)
                elif value is not None:
                    read = self._decoder.read(field, value, name, unknown)
                    if read not in ([], {}) or name in ("spec", "status", "roleRef"):
                        found[name] = read
        except MisfitError as error:
            return Fitted(obj, mistake=str(error))
        return Fitted(found, tuple(unknown))

    def default(self, obj: Object, live: Object | None) -> Object:
        fill = DEFAULTS.get(self._resource)
        return _changed(obj, fill, live) if fill else obj

    def complete(self, obj: Object, live: Object | None) -> Object:
        if self._resource not in COMPLETED:
            return obj
        return _changed(obj, partial(complete, self._resource), live)

    def validate(self, obj: Object, live: Object | None) -> list[Mistake]:
        rule = RULES.get(self._resource)
        found = list(by_schema(self._decoder, self.schema, obj)) if self.schema else []
        if rule:
            named = {mistake.field for mistake in found}
            found += [mistake for mistake in rule(obj, live) if mistake.field not in named]
        return found


def _changed(obj: Object, change: Change, live: Object | None) -> Object:
    copy: Object = orjson.loads(orjson.dumps(obj))
    change(copy, live)
    return copy


def built_in_kinds(bundle: Bundle) -> Iterator[Kind]:
    """Every kind of the bundle that is stored as objects."""
    for group in bundle.discovery:
        name = group["metadata"].get("name", "")
        for version in group["versions"]:
            if (name, version["version"]) not in _SERVED_ELSEWHERE:
                for entry in version["resources"]:
                    if "list" in entry["verbs"] and "create" in entry["verbs"]:
                        yield _kind(bundle, name, version["version"], entry)


def _kind(bundle: Bundle, group: str, version: str, entry: Mapping[str, Any]) -> Kind:
    kind, plural = entry["responseKind"]["kind"], entry["resource"]
    resource = f"{plural}.{group}" if group else plural
    return Kind(
        group,
        version,
        kind,
        plural,
        entry["scope"] == "Namespaced",
        BuiltIn(resource, kind, bundle.schema(group, version, kind), bundle),
        entry.get("singularResource", ""),
        f"{kind}List",
        tuple(entry["verbs"]),
        tuple(entry.get("shortNames", ())),
        tuple(entry.get("categories", ())),
        tuple(found["subresource"] for found in entry.get("subresources", ()) if found["subresource"] == "status"),
    )
