"""A `Placement` object in Git as a value, and the reader of such objects.

A placement selects objects of a source, and the clusters that get these objects. Overrides patch the objects for some
clusters. The reader accepts a `Placement` completely or not at all. The reader reports all mistakes of a `Placement`
together, each with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from gitops.windows.problem_collector import FieldProblems, parse_field
from gitops.windows.window import matches_any
from renderer import schema
from renderer.catalog.file_content import DeclaredObject
from renderer.catalog.projection import ManifestPatch
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import GroupKind
from renderer.kinds import OWN_API_VERSION
from renderer.label_selector import LABEL_SELECTOR_SCHEMA, LabelSelector
from renderer.schema.validation import enum_form, object_form


class OnUnmatch(StrEnum):
    """Fate of an object in a cluster that no longer gets the object, while Git still declares the object."""

    ORPHAN = "Orphan"
    DELETE = "Delete"


@dataclass(frozen=True, slots=True)
class PlainSelector:
    """Selector of plain objects. In every field that is not None, an object must match at least one entry.

    A field that is None matches all objects. Names may contain the wildcard `*`.

    A Namespace object counts as being in the namespace of its name. Any other cluster-scoped object is in no namespace,
    so a selector with `namespaces` does not match the object.
    """

    namespaces: tuple[str, ...] | None
    kinds: tuple[str, ...] | None

    def matches(self, kind: GroupKind, namespace: str) -> bool:
        is_of_kind = matches_any(self.kinds, kind.kind) or matches_any(self.kinds, str(kind))
        return is_of_kind and matches_any(self.namespaces, namespace)


@dataclass(frozen=True, slots=True)
class ObjectSelector:
    """Selector of instances, by definition and labels, and of plain objects. Names of definitions may have wildcards.

    A field that is not set is None. The rules for unset fields:

    - If no field is set, all objects match.
    - If only fields for instances are set, no plain object matches.
    - If only fields for plain objects are set, no instance matches.
    """

    rgds: tuple[str, ...] | None
    instances: LabelSelector | None
    plain: PlainSelector | None

    @property
    def takes_instances(self) -> bool:
        """Return whether the selector can match any instance."""
        return self.rgds is not None or self.instances is not None or self.plain is None

    @property
    def takes_plain(self) -> bool:
        """Return whether the selector can match any plain object."""
        return self.plain is not None or (self.rgds is None and self.instances is None)

    def matches_definition(self, names: frozenset[str]) -> bool:
        """Return whether the selector matches a definition.

        Args:
            names: names of the definition, several if Git defines the kind twice.
        """
        return self.takes_instances and any(matches_any(self.rgds, name) for name in names)

    def matches_instance(self, names: frozenset[str], labels: Mapping[str, str]) -> bool:
        return self.matches_definition(names) and (self.instances is None or self.instances.matches(labels))

    def matches_plain(self, kind: GroupKind, namespace: str) -> bool:
        return self.takes_plain and (self.plain is None or self.plain.matches(kind, namespace))


@dataclass(frozen=True, slots=True)
class PlacementOverride:
    """Merge patch for instances in the selected clusters."""

    clusters: LabelSelector
    rgds: tuple[str, ...] | None
    """Names of the definitions whose instances get the patch. None means all definitions."""
    patch: ManifestPatch

    def matches_instance(self, names: frozenset[str]) -> bool:
        return any(matches_any(self.rgds, name) for name in names)


@dataclass(frozen=True, slots=True)
class Placement:
    """Declaration of a placement by a valid `Placement` object in Git."""

    name: str
    objects: ObjectSelector
    clusters: LabelSelector
    count: int | None
    """Number of selected clusters that get the objects. None means all selected clusters."""
    overrides: tuple[PlacementOverride, ...]
    on_unmatch: OnUnmatch
    origin: SourceLocation


_NAMES: Final = {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^[A-Za-z0-9._:@/*-]+$"}}
SPEC: Final = object_form(
    "objects",
    "clusters",
    objects=object_form(
        rgds=_NAMES, instances=LABEL_SELECTOR_SCHEMA, plain=object_form(namespaces=_NAMES, kinds=_NAMES)
    ),
    clusters=LABEL_SELECTOR_SCHEMA,
    count={"type": "integer", "minimum": 1},
    overrides={
        "type": "array",
        "items": object_form(
            "patch",
            clusters=LABEL_SELECTOR_SCHEMA,
            rgds=_NAMES,
            patch={"type": "object", "minProperties": 1, "x-kubernetes-preserve-unknown-fields": True},
        ),
    },
    onUnmatch=enum_form(OnUnmatch),
)
"""OpenAPI v3 schema of a placement's `spec`."""

_UNSUPPORTED: Final = ("rollout", "pin", "skipUnreachable")
_IDENTITY: Final = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))
"""Fields that identify an object. A patch must not change these fields."""


def read_placement(declared: DeclaredObject) -> Placement | list[Problem]:
    """Return the placement that a manifest declares, or all mistakes in the manifest."""
    reader = _PlacementReader(declared)
    return reader.value_or_problems(reader.read())


class _PlacementReader(FieldProblems):
    """Reader of one `Placement`. Every method adds a problem to `problems` for each mistake."""

    def read(self) -> Placement | None:
        """Return the placement, or None if the manifest has a mistake."""
        spec = self._read_form()
        objects = spec.get("objects", {})
        instances = self._read_labels("spec.objects.instances", objects.get("instances"))
        clusters = self._read_labels("spec.clusters", spec.get("clusters"))
        written_overrides = enumerate(spec.get("overrides", ()))
        overrides = [self._read_override(index, override) for index, override in written_overrides]
        if self.problems or clusters is None:
            return None
        plain = objects.get("plain")
        return Placement(
            name=self.declared.manifest["metadata"]["name"],
            objects=ObjectSelector(
                rgds=_names(objects, "rgds"),
                instances=instances,
                plain=None if plain is None else PlainSelector(_names(plain, "namespaces"), _names(plain, "kinds")),
            ),
            clusters=clusters,
            count=int(spec["count"]) if "count" in spec else None,
            overrides=tuple(filter(None, overrides)),
            on_unmatch=OnUnmatch(spec.get("onUnmatch", OnUnmatch.ORPHAN)),
            origin=self.declared.origin,
        )

    def _read_form(self) -> dict[str, Any]:
        """Return the spec without the fields that violate the schema, so that the reader can check the rest."""
        manifest = self.declared.manifest
        if manifest["apiVersion"] != OWN_API_VERSION:
            self.add_problem("apiVersion", f"{manifest['apiVersion']!r} is not known; write {OWN_API_VERSION}")
        for name in sorted(manifest.keys() - {"apiVersion", "kind", "metadata", "spec"}):
            self.add_problem(name, f"no field {name!r}; write the fields of the placement under spec")
        written = manifest.get("spec")
        if not isinstance(written, dict) and written is not None:
            self.add_problem("spec", "must be an object")
        spec = (
            {name: value for name, value in written.items() if value is not None} if isinstance(written, dict) else {}
        )
        for name in _UNSUPPORTED:
            if spec.pop(name, None) is not None:
                message = f"{name}: Levelgate does not support an order between clusters yet; remove the field"
                self.add_problem(f"spec.{name}", message)
        for mistake in schema.validate(SPEC, spec):
            self.add_problem(f"spec.{mistake.path}", mistake.message)
            spec.pop(re.split(r"[.\[]", mistake.path)[0], None)
        return spec

    def _read_labels(self, path: str, selector: Any) -> LabelSelector | None:
        if selector is None:
            return None
        return self.try_parse(lambda: parse_field(path, _parse_selector, selector))

    def _read_override(self, index: int, written: Mapping[str, Any]) -> PlacementOverride | None:
        path = f"spec.overrides[{index}]"
        for field, message in _find_identity_changes(written["patch"]):
            self.add_problem(f"{path}.patch.{field}", message)
        clusters = self._read_labels(f"{path}.clusters", written.get("clusters") or {})
        origin = SourceLocation(self.declared.origin.file, self.declared.line_of(path))
        return (
            PlacementOverride(clusters, _names(written, "rgds"), ManifestPatch(written["patch"], origin))
            if clusters
            else None
        )


def _parse_selector(value: Any) -> LabelSelector:
    return LabelSelector.from_object(value, strict=True)


def _names(written: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    return tuple(written[name]) if written.get(name) is not None else None


def _find_identity_changes(patch: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields in `patch` that a patch must not set, as (field, message)."""
    if "metadata" in patch and not isinstance(patch["metadata"], dict):
        yield "metadata", "would remove the name of the object; patch single labels or annotations"
    for steps in _IDENTITY:
        value: Any = patch
        for step in steps:
            value = value.get(step, _ABSENT) if isinstance(value, dict) else _ABSENT
        if value is not _ABSENT:
            hint = "; spec.namespaceMap of the Cluster moves namespaces" if steps[-1] == "namespace" else ""
            yield ".".join(steps), f"a patch cannot change the identity of an object; remove the field{hint}"
    if "status" in patch:
        yield "status", "belongs to the controller of the object, not to Git; remove the field"


_ABSENT: Final = object()
