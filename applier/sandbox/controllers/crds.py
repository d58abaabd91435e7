"""CustomResourceDefinitions: from the object to served kinds and back, and the conditions that say so.

A definition is served once its names are accepted; while it is being deleted its objects are removed first. Source:
apiextensions-apiserver `pkg/controller/status` and `finalizer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from applier.sandbox.api.state import ApiState, opened, stored_form
from applier.sandbox.kinds.custom import Custom
from applier.sandbox.kinds.registry import ALL_VERBS, Column, Registry, ScalePaths, ServedKind
from applier.sandbox.storage.store import StoredKey
from renderer.schema import Evaluate

Object = dict[str, Any]
Schema = Mapping[str, Any]

RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

_ACCEPTED, _ESTABLISHED, _TERMINATING = "NamesAccepted", "Established", "Terminating"


class CrdController:
    """`evaluate` judges the CEL rules of custom kinds; without it they are not checked."""

    def __init__(self, state: ApiState, *, schemas: Mapping[str, Schema], evaluate: Evaluate | None) -> None:
        self._state = state
        self._schemas = schemas
        self._evaluate = evaluate
        self._served: dict[str, tuple[str, str]] = {}
        self._versions: dict[str, Any] = {}

    def settle(self, name: str) -> None:
        """Bring what is served, and the definition's status, to what the definition says."""
        key = StoredKey(RESOURCE, "", name)
        stored = self._state.store.get(key)
        kind = self._state.kinds.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        if stored is None or kind is None:
            self.withdraw(name)
            return
        obj = opened(kind, stored)
        if stored.deleting:
            self._finish(key, obj)
            return
        conflict = self._conflict(name, obj["spec"])
        wanted = self._status(obj, conflict)
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers or wanted != obj.get("status"):
            if FINALIZER not in finalizers:
                finalizers.append(FINALIZER)
            obj["status"] = wanted
            self._state.write(key, obj)
        if not conflict:
            self.serve(obj)

    def serve(self, definition: Object) -> None:
        """Serve the kinds of a definition in all its served versions, in place of what was served for it before.

        Objects that are stored already are shown by the new schemas: what these do not know vanishes.
        """
        name, spec = definition["metadata"]["name"], definition["spec"]
        if self._versions.get(name) == spec["versions"]:
            return
        self.withdraw(name)
        self._served[name], self._versions[name] = (spec["group"], spec["names"]["plural"]), spec["versions"]
        kinds = self._kinds(spec)
        self._state.kinds.add(kinds)
        storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
        for kind in kinds:
            if kind.version == storage:
                self._reread(kind)

    def _reread(self, kind: ServedKind) -> None:
        for place in self._state.store.shelf(kind.resource).keys(None):
            key = StoredKey(kind.resource, *place)
            obj = self._state.read(kind, key)
            assert obj is not None
            shown = kind.model.default(kind.model.fit(obj).obj, None)
            if shown != obj:
                self._state.store.reread(key, stored_form(shown))

    def withdraw(self, name: str) -> None:
        self._versions.pop(name, None)
        if place := self._served.pop(name, None):
            self._state.kinds.remove(*place)

    def _kinds(self, spec: Object) -> list[ServedKind]:
        names = spec["names"]
        return [
            ServedKind(
                spec["group"],
                version["name"],
                names["kind"],
                names["plural"],
                spec["scope"] == "Namespaced",
                self._model(version),
                names.get("singular", ""),
                names.get("listKind", ""),
                ALL_VERBS,
                tuple(names.get("shortNames") or ()),
                tuple(names.get("categories") or ()),
                tuple(name for name in ("scale", "status") if name in (version.get("subresources") or {})),
                tuple(_column(one) for one in version.get("additionalPrinterColumns") or ()),
                custom=True,
                scale=_scale((version.get("subresources") or {}).get("scale")),
                selectable=tuple(one["jsonPath"].removeprefix(".") for one in version.get("selectableFields") or ()),
            )
            for version in spec["versions"]
            if version.get("served")
        ]

    def _model(self, version: Object) -> Custom:
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        return Custom(schema, definitions=self._schemas, evaluate=self._evaluate)

    def _conflict(self, name: str, spec: Object) -> str:
        """The name that another definition of the group has already; "" if there is none."""
        names = spec["names"]
        for kind in self._others(name, spec["group"]):
            if kind.kind == names["kind"]:
                return f"Kind:{names['kind']}"
            if kind.list_kind == names.get("listKind"):
                return f"ListKind:{names['listKind']}"
        return ""

    def _others(self, name: str, group: str) -> list[ServedKind]:
        registry: Registry = self._state.kinds
        own = self._served.get(name)
        found = [kind for version in registry.versions(group) for kind in registry.kinds(group, version)]
        return [kind for kind in found if (kind.group, kind.plural) != own]

    def _status(self, obj: Object, conflict: str) -> Object:
        now, spec = self._state.now(), obj["spec"]
        before = {one["type"]: one for one in (obj.get("status") or {}).get("conditions") or ()}

        def condition(kind: str, *, held: bool, reason: str, message: str) -> Object:
            status = "True" if held else "False"
            known = before.get(kind)
            since = known["lastTransitionTime"] if known and known["status"] == status else now
            return {
                "type": kind,
                "status": status,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }

        if conflict:
            what, _, word = conflict.partition(":")
            accepted: Object = {"plural": spec["names"]["plural"], "kind": ""}
            conditions = [
                condition(_ACCEPTED, held=False, reason=f"{what}Conflict", message=f'"{word}" is already in use'),
                condition(_ESTABLISHED, held=False, reason="NotAccepted", message="not all names are accepted"),
            ]
        else:
            accepted = spec["names"]
            conditions = [
                condition(_ACCEPTED, held=True, reason="NoConflicts", message="no conflicts found"),
                condition(
                    _ESTABLISHED,
                    held=True,
                    reason="InitialNamesAccepted",
                    message="the initial names have been accepted",
                ),
            ]
        storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
        stored_versions = (obj.get("status") or {}).get("storedVersions") or []
        if storage not in stored_versions:
            stored_versions = [*stored_versions, storage]
        return {"conditions": conditions, "acceptedNames": accepted, "storedVersions": stored_versions}

    def _finish(self, key: StoredKey, obj: Object) -> None:
        """A definition that is being deleted goes when the last of its objects is gone."""
        spec = obj["spec"]
        resource = f"{spec['names']['plural']}.{spec['group']}"
        if self._state.store.shelf(resource).objects:
            return
        finalizers = [name for name in obj["metadata"].get("finalizers") or () if name != FINALIZER]
        self.withdraw(key.name)
        if finalizers:
            obj["metadata"]["finalizers"] = finalizers
            self._state.write(key, obj)
        else:
            self._state.store.remove(key)


def _scale(scale: Object | None) -> ScalePaths | None:
    if not scale:
        return None
    names = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    return ScalePaths(*(scale.get(name, "").removeprefix(".") for name in names))


def _column(column: Object) -> Column:
    return Column(
        column["name"],
        column["type"],
        column["jsonPath"],
        column.get("format", ""),
        column.get("description", ""),
        column.get("priority", 0),
    )
