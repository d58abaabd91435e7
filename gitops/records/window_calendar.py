"""Windows in force, stored in the ConfigMap `windows` for people, and for commands that do not read the repository.

Each source with windows has a key whose value is a YAML stream. The stream holds the windows of the source as in Git,
each with its file and line, and the policy that has rules for windows. If windows name iCalendar files, the source has
a second key. The value of the second key is a JSON object with the text of each file by path.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from applier.applyset.inventory import Scope, read_scope
from applier.cluster import Cluster, Discovery, Object, list_if_served
from applier.state.observed import annotation, label
from gitops.records.source_record import SourceRecord
from gitops.rollouts.source_rules import SourceRules, StoredRules, restore_rules
from gitops.windows.window import WindowTarget
from renderer import documents, well_known
from renderer.identity import OWN_NAMESPACE, GroupKind, Manifest, ObjectKey, applyset_id, source_parent
from renderer.kinds import CRD, RULE_KINDS, WINDOW
from renderer.render.model import id_in_definition

CONFIGMAP_KEY: Final = ObjectKey("", "ConfigMap", OWN_NAMESPACE, "windows")
_STREAM, _CALENDARS = ".yaml", ".calendars.json"
"""Suffixes of the data keys, which begin with the name of the source."""


def calendar_data(rules: Mapping[str, StoredRules]) -> dict[str, str]:
    """Return the data of the ConfigMap for `rules`, the rules in force by source.

    If a source has neither windows nor a policy with rules for windows, the source has no entry.
    """
    return {name: text for source, stored in sorted(rules.items()) for name, text in _source_entries(source, stored)}


def _source_entries(source: str, stored: StoredRules) -> Iterator[tuple[str, str]]:
    """Yield the key and the value of each data entry of `source`."""
    listed_rules = [_with_location(rule) for rule in stored.get("rules") or () if _is_listed(rule["manifest"])]
    if listed_rules:
        yield f"{source}{_STREAM}", documents.dump(listed_rules)
        if files := stored.get("calendars"):
            calendar_texts = {file: base64.b64decode(data).decode(errors="replace") for file, data in files.items()}
            yield f"{source}{_CALENDARS}", orjson.dumps(calendar_texts, option=orjson.OPT_SORT_KEYS).decode()


def _is_listed(manifest: Manifest) -> bool:
    """Return whether `manifest` is a window, or a policy that has rules for windows."""
    return manifest["kind"] == WINDOW or "windows" in (manifest.get("spec") or {})


def _with_location(rule: Mapping[str, Any]) -> Manifest:
    """Return the manifest of the stored rule `rule`, with its file and line as an annotation."""
    metadata = rule["manifest"]["metadata"]
    annotations = {**(metadata.get("annotations") or {}), well_known.FILE: f"{rule['file']}:{rule['line']}"}
    return {**rule["manifest"], "metadata": {**metadata, "annotations": annotations}}


def find_configmap(records: Iterable[Object]) -> Object | None:
    """Return the ConfigMap of windows among `records`, or None if `records` lacks it."""
    return next((obj for obj in records if ObjectKey.from_manifest(obj) == CONFIGMAP_KEY), None)


def updated_configmap(rules: Mapping[str, StoredRules], live: Object | None) -> Object | None:
    """Return the ConfigMap to apply, or None if `live` is up to date.

    Entries of sources that are absent from `rules` stay.
    """
    previous_data = (live or {}).get("data") or {}
    own_keys = {f"{source}{suffix}" for source in rules for suffix in (_STREAM, _CALENDARS)}
    data = {**{name: text for name, text in previous_data.items() if name not in own_keys}, **calendar_data(rules)}
    metadata = {
        "name": CONFIGMAP_KEY.name,
        "namespace": CONFIGMAP_KEY.namespace,
        "labels": {well_known.RECORD: CONFIGMAP_KEY.name},
    }
    return (
        None
        if data == previous_data
        else {"apiVersion": "v1", "kind": CONFIGMAP_KEY.kind, "metadata": metadata, "data": data}
    )


async def read_rules(cluster: Cluster) -> list[SourceRules]:
    """Return the rules in force of each source that has windows, ordered by name of the source.

    Raises: ClusterError.
    """
    live = await cluster.get(CONFIGMAP_KEY)
    return list(parse_rules((live or {}).get("data") or {}))


def parse_rules(data: Mapping[str, str]) -> Iterator[SourceRules]:
    """Yield the rules of each source from which `calendar_data` made `data`."""
    for name, text in sorted(data.items()):
        if name.endswith(_STREAM):
            source = name.removesuffix(_STREAM)
            loaded, _ = documents.load(name, text.encode())
            files = orjson.loads(data.get(f"{source}{_CALENDARS}", "{}"))
            calendars = {file: base64.b64encode(text.encode()).decode() for file, text in files.items()}
            rules = [_parse_rule(document.value) for document in loaded if _is_rule(document.value)]
            yield restore_rules(source, {"rules": rules, "calendars": calendars})


def _is_rule(document: Mapping[str, Any]) -> bool:
    """Return whether `document` is a rule with a name.

    A person may edit the ConfigMap, so a document may have any content.
    """
    return document.get("kind") in RULE_KINDS and "name" in (document.get("metadata") or {})


def _parse_rule(manifest: Manifest) -> dict[str, Any]:
    file, _, line = annotation(manifest, well_known.FILE).rpartition(":")
    return {"file": file, "line": int(line) if line.isdecimal() else 0, "manifest": manifest}


async def list_targets(
    cluster: Cluster, records: Sequence[tuple[str, SourceRecord]], cluster_name: str
) -> dict[str, list[WindowTarget]]:
    """Return the live objects of each source in `records` as targets of windows, by source.

    The function lists the metadata of each kind once.

    Raises: ClusterError.
    """
    discovery = await cluster.discover()
    parents = await asyncio.gather(*(cluster.get(source_parent(name), metadata_only=True) for name, _ in records))
    scopes = [read_scope(parent) for parent in parents if parent]
    scopes += [scope for _, record in records for scope in record.scopes.values()]
    kinds = sorted(Scope().kinds.union(*(scope.kinds for scope in scopes)))
    lists = await asyncio.gather(
        *(list_if_served(cluster, kind, selector=well_known.PART_OF, metadata_only=True) for kind in kinds)
    )
    members = {ObjectKey.from_manifest(obj): obj for objects in lists for obj in objects}
    definitions = _definitions_by_kind(discovery, members)
    owners = _owners_by_set_id(records)
    targets_by_source: dict[str, list[WindowTarget]] = {source: [] for source, _ in records}
    for key, obj in members.items():
        if owner := owners.get(label(obj, well_known.PART_OF)):
            source, instance = owner
            targets_by_source[source].append(_target(key, obj, instance, members, definitions, cluster_name))
    return targets_by_source


def _definitions_by_kind(discovery: Discovery, members: Mapping[ObjectKey, Object]) -> dict[GroupKind, str]:
    """Return the name of the definition by kind, from the CRDs among `members`."""
    kinds = {f"{resource.plural}.{resource.group}": kind for kind, resource in discovery.resources.items()}
    return {
        kinds[key.name]: name
        for key, obj in members.items()
        if key.group_kind == CRD and key.name in kinds and (name := annotation(obj, well_known.DEFINITION))
    }


def _owners_by_set_id(records: Iterable[tuple[str, SourceRecord]]) -> dict[str, tuple[str, ObjectKey | None]]:
    """Return the source and the instance that own each set, by id of the set.

    For a source's own set, the instance is None.
    """
    owners: dict[str, tuple[str, ObjectKey | None]] = {}
    for source, record in records:
        owners[applyset_id(source_parent(source))] = source, None
        owners |= {applyset_id(instance): (source, instance) for instance in record.scopes}
    return owners


def _target(
    key: ObjectKey,
    obj: Object,
    instance: ObjectKey | None,
    members: Mapping[ObjectKey, Object],
    definitions: Mapping[GroupKind, str],
    cluster_name: str,
) -> WindowTarget:
    """Return the member `obj` as a target of windows.

    Args:
        instance: key of the instance whose set contains `obj`, or None for a member of the source's own set.
    """
    kind = key.group_kind
    selected_instance = instance or (key if kind in definitions else None)
    if selected_instance:
        labels = (members.get(selected_instance) or {"metadata": {}})["metadata"].get("labels") or {}
        node = id_in_definition(annotation(obj, well_known.NODE_ID)) if instance else ""
        rgd = definitions.get(selected_instance.group_kind, "")
        return WindowTarget(kind, key.namespace, cluster_name, rgd, node, labels)
    return WindowTarget(
        kind, key.namespace, cluster_name, rgd=annotation(obj, well_known.DEFINITION) if kind == CRD else ""
    )
