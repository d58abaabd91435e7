"""Controller that serves the kinds of CustomResourceDefinitions and sets the conditions of each definition.

When the controller has accepted the names of a definition, the server serves the definition. Before the controller
removes a definition, the garbage collector removes all custom objects of the definition.

Source: apiextensions-apiserver `pkg/controller/status` and `finalizer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from applier.cluster import Object
from applier.sandbox.api.state import ApiState, with_type_meta, without_type_meta
from applier.sandbox.kinds.custom import CustomKindModel
from applier.sandbox.kinds.registry import ALL_VERBS, Column, ScalePaths, ServedKind
from applier.sandbox.storage.store import StoredKey
from renderer.schema import Evaluate

Schema = Mapping[str, Any]

CRD_RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"
CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

_ACCEPTED, _ESTABLISHED, _TERMINATING = "NamesAccepted", "Established", "Terminating"


class CrdController:
    """Controller that serves the kinds of each CustomResourceDefinition in the store.

    Args:
        evaluate: function that evaluates the CEL rules of custom kinds. If None, the server does not check CEL rules.
    """

    def __init__(self, state: ApiState, *, schemas: Mapping[str, Schema], evaluate: Evaluate | None) -> None:
        self._state = state
        self._schemas = schemas
        self._evaluate = evaluate
        self._served_resources: dict[str, tuple[str, str]] = {}
        self._served_specs: dict[str, Object] = {}

    def reconcile(self, name: str) -> None:
        """Make the served kinds and the status of the definition `name` match its spec."""
        key = StoredKey(CRD_RESOURCE, "", name)
        stored = self._state.store.get(key)
        if stored is None:
            self.withdraw(name)
            return
        obj = stored.to_object()
        if stored.is_deleting:
            self._finish_deletion(key, obj)
            return
        conflict = self._find_conflict(name, obj["spec"])
        status = self._build_status(obj, conflict)
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if CRD_FINALIZER not in finalizers or status != obj.get("status"):
            if CRD_FINALIZER not in finalizers:
                finalizers.append(CRD_FINALIZER)
            obj["status"] = status
            self._state.write(key, obj)
        if not conflict:
            self.serve(obj)

    def serve(self, definition: Object) -> None:
        """Serve the kinds of `definition` in all its served versions, in place of the kinds served before.

        The controller converts stored objects to the new schemas. The conversion removes unknown fields, and adds
        missing defaults.
        """
        name, spec = definition["metadata"]["name"], definition["spec"]
        if self._served_specs.get(name) == spec:
            return
        self.withdraw(name)
        self._served_resources[name], self._served_specs[name] = (spec["group"], spec["names"]["plural"]), spec
        kinds = self._build_kinds(spec)
        self._state.kinds.add(kinds)
        storage_version = next(version["name"] for version in spec["versions"] if version.get("storage"))
        for kind in kinds:
            if kind.version == storage_version:
                self._convert_stored(kind)

    def _convert_stored(self, kind: ServedKind) -> None:
        for stored in self._state.store.resource_store(kind.resource).sorted_objects():
            obj = with_type_meta(kind, stored)
            converted = kind.model.default(kind.model.decode(obj).obj, None)
            if converted != obj:
                self._state.store.replace_content(stored.key, without_type_meta(converted))

    def withdraw(self, name: str) -> None:
        self._served_specs.pop(name, None)
        if served_resource := self._served_resources.pop(name, None):
            self._state.kinds.remove(*served_resource)

    def _build_kinds(self, spec: Object) -> list[ServedKind]:
        names = spec["names"]
        return [
            ServedKind(
                spec["group"],
                version["name"],
                names["kind"],
                names["plural"],
                spec["scope"] == "Namespaced",
                self._build_model(version),
                names.get("singular", ""),
                names.get("listKind", ""),
                ALL_VERBS,
                tuple(names.get("shortNames") or ()),
                tuple(names.get("categories") or ()),
                tuple(name for name in ("scale", "status") if name in (version.get("subresources") or {})),
                tuple(
                    _parse_column(printer_column) for printer_column in version.get("additionalPrinterColumns") or ()
                ),
                is_custom=True,
                scale_paths=_parse_scale_paths((version.get("subresources") or {}).get("scale")),
                selectable=tuple(
                    selectable_field["jsonPath"].removeprefix(".")
                    for selectable_field in version.get("selectableFields") or ()
                ),
            )
            for version in spec["versions"]
            if version.get("served")
        ]

    def _build_model(self, version: Object) -> CustomKindModel:
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        return CustomKindModel(schema, definitions=self._schemas, evaluate=self._evaluate)

    def _find_conflict(self, name: str, spec: Object) -> str:
        """Return the kind or list kind of `spec` that another definition of the group uses, such as `Kind:App`.

        If no such definition exists, return an empty string.
        """
        names, served_resource = spec["names"], self._served_resources.get(name)
        for kind in self._state.kinds.group_kinds(spec["group"]):
            if (kind.group, kind.plural) == served_resource:
                continue
            if kind.kind == names["kind"]:
                return f"Kind:{names['kind']}"
            if kind.list_kind == names.get("listKind"):
                return f"ListKind:{names['listKind']}"
        return ""

    def _build_status(self, obj: Object, conflict: str) -> Object:
        now, spec = self._state.now(), obj["spec"]
        previous_conditions = {entry["type"]: entry for entry in (obj.get("status") or {}).get("conditions") or ()}

        def condition(condition_type: str, *, is_true: bool, reason: str, message: str) -> Object:
            status = "True" if is_true else "False"
            previous = previous_conditions.get(condition_type)
            transition_time = previous["lastTransitionTime"] if previous and previous["status"] == status else now
            return {
                "type": condition_type,
                "status": status,
                "lastTransitionTime": transition_time,
                "reason": reason,
                "message": message,
            }

        if conflict:
            name_field, _, conflicting_name = conflict.partition(":")
            accepted_names: Object = {"plural": spec["names"]["plural"], "kind": ""}
            conditions = [
                condition(
                    _ACCEPTED,
                    is_true=False,
                    reason=f"{name_field}Conflict",
                    message=f'"{conflicting_name}" is already in use',
                ),
                condition(_ESTABLISHED, is_true=False, reason="NotAccepted", message="not all names are accepted"),
            ]
        else:
            accepted_names = spec["names"]
            conditions = [
                condition(_ACCEPTED, is_true=True, reason="NoConflicts", message="no conflicts found"),
                condition(
                    _ESTABLISHED,
                    is_true=True,
                    reason="InitialNamesAccepted",
                    message="the initial names have been accepted",
                ),
            ]
        storage_version = next(version["name"] for version in spec["versions"] if version.get("storage"))
        stored_versions = (obj.get("status") or {}).get("storedVersions") or []
        if storage_version not in stored_versions:
            stored_versions = [*stored_versions, storage_version]
        return {"conditions": conditions, "acceptedNames": accepted_names, "storedVersions": stored_versions}

    def _finish_deletion(self, key: StoredKey, obj: Object) -> None:
        """If no custom object is left, stop serving the definition `obj`, and remove its CRD finalizer.

        If no other finalizer is left, remove `obj`.
        """
        spec = obj["spec"]
        resource = f"{spec['names']['plural']}.{spec['group']}"
        if self._state.store.resource_store(resource).objects:
            return
        finalizers = [name for name in obj["metadata"].get("finalizers") or () if name != CRD_FINALIZER]
        self.withdraw(key.name)
        if finalizers:
            obj["metadata"]["finalizers"] = finalizers
            self._state.write(key, obj)
        else:
            self._state.store.remove(key)


def _parse_scale_paths(scale: Object | None) -> ScalePaths | None:
    if not scale:
        return None
    names = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    return ScalePaths(*(scale.get(name, "").removeprefix(".") for name in names))


def _parse_column(column: Object) -> Column:
    return Column(
        column["name"],
        column["type"],
        column["jsonPath"],
        column.get("format", ""),
        column.get("description", ""),
        column.get("priority", 0),
    )
