"""Adoption of objects that exist but are in no set: the tools that manage them, and the fields of their owners.

The module is pure. Levelgate adopts an object once, and becomes the manager of all fields that the old owner applied.
So the first apply removes fields that Git does not declare, and later removals from Git take effect.

Source: KEP-2155, "upgrading from client-side to server-side apply".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import chain
from typing import Any

import orjson

from applier.applyset import kro
from applier.cluster import CONTENT_MANAGER, PARENT_MANAGER, Object
from applier.state.field_conflicts import HUMAN_MANAGER_PREFIXES
from applier.state.managed_fields import apply_entry, compare_ownership, manager_entries, owned_metadata
from applier.state.observed import annotation, label
from applier.state.structural_diff import diff_values
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.kinds import CRD

_APPLYSET_KEY_MANAGERS = ("kubectl-applyset", kro.PARENT_KEYS_MANAGER)
"""Field managers of ApplySet keys on parents (KEP-3659). Although their names begin with a prefix of a tool, these
managers own no content.
"""


class AdoptPolicy(StrEnum):
    """Policy for the objects that a source may adopt. The values are part of the API."""

    NO_ADOPTION = "Never"
    IF_EQUAL = "IfEqual"
    IF_UNOWNED = "IfUnowned"


@dataclass(frozen=True, slots=True)
class Tool:
    """Marks by which Levelgate recognises the objects of another tool."""

    manager_prefixes: tuple[str, ...]
    """Prefixes of the tool's field managers."""
    marker_keys: tuple[str, ...]
    """Labels or annotations that the tool sets on its objects."""
    stop_advice: str = ""
    """Advice on how to stop the tool before an adoption, so that two tools do not write the same object."""
    record_paths: tuple[str, ...] = ()
    """Prefixes of the paths of the tool's own records. A change of a record is not a difference, because records are
    not content.
    """


TOOLS: Mapping[str, Tool] = {
    "kubectl": Tool(HUMAN_MANAGER_PREFIXES, ()),
    "flux": Tool(
        ("kustomize-controller", "helm-controller"),
        ("kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name"),
        "suspend the object in Flux",
        (".metadata.labels.kustomize.toolkit.fluxcd.io/", ".metadata.labels.helm.toolkit.fluxcd.io/"),
    ),
    "argocd": Tool(
        ("argocd-",),
        ("argocd.argoproj.io/tracking-id",),
        "turn off the automated sync of the object in Argo CD",
        (".metadata.annotations.argocd.argoproj.io/tracking-id",),
    ),
    "helm": Tool(
        ("helm",),
        ("meta.helm.sh/release-name",),
        "do not change the Helm release of the object, because helm uninstall would delete the object",
        (".metadata.annotations.meta.helm.sh/", f".metadata.labels.{well_known.MANAGED_BY}"),
    ),
    kro.TOOL: Tool(
        (kro.MEMBER_MANAGER,),
        (kro.OWNED_LABEL,),
        "stop kro",
        (
            ".metadata.labels.kro.run/",
            ".metadata.annotations.internal.kro.run/",
            f".metadata.labels.{well_known.MANAGED_BY}",
        ),
    ),
}
_PART_OF_PATH = f".metadata.labels.{well_known.PART_OF}"
_KEPT_LABEL_PREFIX = "kro.run/"
"""Prefix of the labels of kro that stay without an owner after an adoption, because selectors may use these labels."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """Permission of a source to adopt.

    If no tool manages an object, `policy` alone decides about the object.
    """

    policy: AdoptPolicy = AdoptPolicy.NO_ADOPTION
    tools: frozenset[str] = frozenset()
    """Tools whose objects the source may adopt."""
    running_kro: str = ""
    """Signs that kro runs, or an empty string without signs. While kro runs, Levelgate adopts no object of kro."""

    @classmethod
    def parse(cls, text: str) -> Adoption:
        """Return the permission that `text` contains as `POLICY[:TOOL,...]`.

        Raises: ValueError, whose text contains the correction.
        """
        policy, _, names = text.partition(":")
        tools = frozenset(filter(None, names.split(",")))
        if policy not in set(AdoptPolicy):
            raise ValueError(f"{policy!r} is not an adoption policy; write one of {', '.join(AdoptPolicy)}")
        if unknown := sorted(tools - set(TOOLS)):
            raise ValueError(f"cannot adopt from {', '.join(unknown)}; name one or more of {', '.join(TOOLS)}")
        return cls(AdoptPolicy(policy), tools)

    @property
    def adoptable_tools(self) -> tuple[str, ...]:
        """Return the tools whose sets Levelgate takes over completely.

        The set ids of such a tool equal the set ids of Levelgate (KEP-3659).
        """
        takes_over_kro = self.policy is not AdoptPolicy.NO_ADOPTION and kro.TOOL in self.tools and not self.running_kro
        return (kro.TOOL,) if takes_over_kro else ()

    def forced_manager_prefixes(self, live: Object) -> tuple[str, ...]:
        """Return the prefixes of field managers whose fields an adoption of `live` takes over by force.

        kro does not set a manager name when kro writes a CRD. So if kro is in `tools`, all managers of a CRD of kro
        count.
        """
        return ("",) if _is_crd_of_kro(live) and kro.TOOL in self.tools else self.manager_prefixes

    @property
    def manager_prefixes(self) -> tuple[str, ...]:
        """Return the prefixes of field managers whose fields Levelgate takes over."""
        return (
            *HUMAN_MANAGER_PREFIXES,
            *(manager for name in sorted(self.tools) for manager in TOOLS[name].manager_prefixes),
        )

    def refusal(self, live: Object) -> str:
        """Return the reason why `live`, an object in no set, may not be adopted, or an empty string.

        The first matching cause decides:

        1. A controller owns the object.
        2. `policy` permits no adoption.
        3. kro still runs.
        4. The tool is not in `tools`.

        If no cause matches, the source may adopt the object.
        """
        key, tool = ObjectKey.from_manifest(live), _managing_tool(live)
        for owner in live["metadata"].get("ownerReferences") or ():
            if owner.get("controller"):
                return f"{owner.get('kind')} {owner.get('name')} controls {key}; remove {key} from Git"
        if self.policy is AdoptPolicy.NO_ADOPTION and tool:
            advice = f"{TOOLS[tool].stop_advice}, and adopt it with --adopt {AdoptPolicy.IF_UNOWNED}:{tool}"
            return f"{key} exists and is managed by {tool}; remove it from Git, or {advice}"
        if self.policy is AdoptPolicy.NO_ADOPTION:
            return (
                f"{key} exists and is not managed by Levelgate; "
                "adopt it (`adopt` of the source, or --adopt), or remove it from Git"
            )
        if tool == kro.TOOL and self.running_kro:
            return f"{key} is managed by kro, which still runs: {self.running_kro}; stop kro, then adopt its objects"
        if tool and tool not in self.tools:
            return f"{key} is managed by {tool}; {TOOLS[tool].stop_advice}, and add --adopt {self.policy}:{tool}"
        return ""


NO_ADOPTION = Adoption()
"""Default permission: existing objects that Levelgate does not own stay unchanged."""


def _managing_tool(live: Object) -> str:
    """Return the tool that manages `live`, or an empty string if no tool does.

    If a tool has marked the object, return that tool. Otherwise return the tool that wrote the object. Marks come
    first, because Argo CD may mark the objects of any tool. The written fields count too, because Helm does not mark
    the CRDs of a chart.
    """
    entries = manager_entries(live)
    marked_tools = (
        name
        for name, tool in TOOLS.items()
        if any(label(live, mark) or annotation(live, mark) for mark in tool.marker_keys)
    )
    writing_tools = (
        name
        for name, tool in TOOLS.items()
        if tool.stop_advice and any(_is_managed_by(entry, tool.manager_prefixes) for entry in entries)
    )
    return next(chain(marked_tools, writing_tools), "")


def migrate_managed_fields(live: Object, managers: tuple[str, ...]) -> list[Object] | None:
    """Return the managed fields of `live`, with all fields that `managers` applied moved to Levelgate.

    If `managers` applied no field, return None. Applied fields are the fields of an Apply entry, and of an Update
    entry that wrote the last applied configuration. Other updates also own defaults, which have to stay although Git
    does not declare them.

    If a tool left its own records by an update (Helm before version 4), Levelgate takes over only the records, and
    later removes them. Until an apply, the other fields of that update have no owner. Entries of controllers and of
    `kubectl edit` stay.
    """
    entries = manager_entries(live)
    applied_entries = [
        entry for entry in entries_applied_by(live, managers) if entry["apiVersion"] == live["apiVersion"]
    ]
    if _is_crd_of_kro(live):
        return [entry for entry in entries if entry.get("subresource")] or [{}]
    tool_prefixes = tuple(name for name in managers if name not in HUMAN_MANAGER_PREFIXES)
    recording_entries = [
        entry
        for entry in entries
        if entry not in applied_entries and _is_managed_by(entry, tool_prefixes) and _tool_record_fields(entry)
    ]
    if not applied_entries and not recording_entries:
        return None
    our_entry = apply_entry(live, CONTENT_MANAGER)
    new_entry = {
        **(our_entry or [*applied_entries, *recording_entries][0]),
        "manager": CONTENT_MANAGER,
        "operation": "Apply",
    }
    fields: Object = {}
    for part in (
        *((entry.get("fieldsV1") or {}) for entry in (our_entry, *applied_entries) if entry),
        *map(_tool_record_fields, recording_entries),
    ):
        _merge_fields(fields, part)
    labels = fields.get("f:metadata", {}).get("f:labels", {})
    for element in [element for element in labels if element.startswith(f"f:{_KEPT_LABEL_PREFIX}")]:
        del labels[element]
    other_entries = [
        entry for entry in entries if entry not in (*applied_entries, *recording_entries) and entry is not our_entry
    ]
    return [{**new_entry, "fieldsV1": fields}, *other_entries]


def parent_takeover_patch(parent: Object) -> Object:
    """Return the merge patch that transfers kro's ApplySet keys on the instance `parent` to Levelgate.

    The patch also removes kro's finalizer, and applies only to this version of the object. Labels stay, without an
    owner. The keys keep their values, so the set belongs to kro until the apply of Levelgate changes the keys.
    """
    metadata = parent["metadata"]
    entries = manager_entries(parent)
    kro_entries = [entry for entry in entries if entry["manager"] in {kro.PARENT_KEYS_MANAGER, kro.LABEL_MANAGER}]
    fields: Object = {}
    for entry in (
        apply_entry(parent, PARENT_MANAGER) or {},
        *(kro_entry for kro_entry in kro_entries if kro_entry["manager"] == kro.PARENT_KEYS_MANAGER),
    ):
        _merge_fields(fields, entry.get("fieldsV1") or {})
    other_entries = [
        entry for entry in entries if entry not in kro_entries and entry != apply_entry(parent, PARENT_MANAGER)
    ]
    our_entry = {
        "manager": PARENT_MANAGER,
        "operation": "Apply",
        "apiVersion": parent["apiVersion"],
        "fieldsType": "FieldsV1",
    }
    return {
        "metadata": {
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "finalizers": [name for name in metadata.get("finalizers") or () if name != kro.FINALIZER],
            "managedFields": [*([{**our_entry, "fieldsV1": fields}] if fields else []), *other_entries] or [{}],
        }
    }


def adoption_differences(live: Object, applied: Object, manifest: Object, managers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths of fields that an adoption of `live` would change.

    An adoption removes fields that `managers` applied and Git does not declare, so the result contains their paths
    too.

    Args:
        applied: the object after a dry run.
    """
    changed_fields = diff_values(_comparable_content(live), _comparable_content(applied))
    changed_paths = (f".{field_diff.path}" for field_diff in changed_fields)
    return tuple(sorted({*changed_paths, *undeclared_fields(live, manifest, managers)}))


def undeclared_fields(live: Object, manifest: Object, managers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths of fields that `managers` applied and Git does not declare.

    An adoption removes these fields, and no dry run shows the removal. Records of tools, and the label of the former
    set, do not count.
    """
    metadata = manifest.get("metadata") or {}
    # Without an empty map, all labels would count as one undeclared field, and the names of the labels would be hidden.
    texts = {name: metadata.get(name) or {} for name in ("labels", "annotations")}
    manifest = {**manifest, "metadata": {**metadata, **texts}}
    paths = [*_undeclared_paths(orjson.loads(annotation(live, well_known.LAST_APPLIED) or "{}"), manifest)]
    for entry in entries_applied_by(live, managers):
        if entry.get("operation") == "Apply":
            field_ownership = compare_ownership(live, manifest, entry["manager"])
            paths += field_ownership.surplus if field_ownership else ()
    ignored_prefixes = (_PART_OF_PATH, *(path for tool in TOOLS.values() for path in tool.record_paths))
    return tuple(sorted({path for path in paths if not path.startswith(ignored_prefixes)}))


def entries_applied_by(live: Object, managers: tuple[str, ...]) -> list[Object]:
    """Return the entries of `managedFields` that record an apply of the object itself by `managers`.

    Both client-side and server-side apply count.

    Args:
        managers: prefixes of the names of field managers.
    """
    return [entry for entry in manager_entries(live) if _is_applied_by(entry, managers)]


def _is_crd_of_kro(live: Object) -> bool:
    return ObjectKey.from_manifest(live).group_kind == CRD and bool(label(live, kro.OWNED_LABEL))


def _is_managed_by(entry: Mapping[str, Any], managers: tuple[str, ...]) -> bool:
    """Return whether `entry` of `managedFields` belongs to a manager whose name begins with one of `managers`.

    Entries of subresources do not count.
    """
    manager = str(entry.get("manager"))
    return not entry.get("subresource") and manager.startswith(managers) and manager not in _APPLYSET_KEY_MANAGERS


def _is_applied_by(entry: Mapping[str, Any], managers: tuple[str, ...]) -> bool:
    return _is_managed_by(entry, managers) and (
        entry.get("operation") == "Apply" or well_known.LAST_APPLIED in owned_metadata(entry, "annotations")
    )


def _tool_record_fields(entry: Mapping[str, Any]) -> Object:
    """Return the fields of `entry` that are records of a tool, without the labels of kro that stay."""
    paths = tuple(path for tool in TOOLS.values() for path in tool.record_paths)
    fields: Object = {}
    for section in ("labels", "annotations"):
        for name in owned_metadata(entry, section):
            if f".metadata.{section}.{name}".startswith(paths) and not name.startswith(_KEPT_LABEL_PREFIX):
                _merge_fields(fields, {"f:metadata": {f"f:{section}": {f"f:{name}": {}}}})
    return fields


def _merge_fields(fields: Object, addition: Mapping[str, Any]) -> None:
    for name, children in addition.items():
        _merge_fields(fields.setdefault(name, {}), children)


def _comparable_content(obj: Object) -> Object:
    """Return content, labels and annotations of `obj`, without the metadata of Levelgate and of the server."""
    metadata = {
        name: {
            key: value
            for key, value in (obj["metadata"].get(name) or {}).items()
            if "levelgate.dev/" not in key and not key.startswith("applyset.kubernetes.io/")
        }
        for name in ("labels", "annotations")
    }
    content = {name: value for name, value in obj.items() if name not in {"apiVersion", "kind", "metadata", "status"}}
    return {**content, "metadata": metadata}


def _undeclared_paths(applied: Any, manifest: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of fields that `applied` contains and `manifest` does not. The values of fields do not matter."""
    if isinstance(applied, dict) and isinstance(manifest, dict):
        for name, value in applied.items():
            if value not in (None, {}, []) and path + name != "status":
                if manifest.get(name) is None:
                    yield f"{path}.{name}"
                else:
                    yield from _undeclared_paths(value, manifest[name], f"{path}.{name}")
    elif isinstance(applied, list) and isinstance(manifest, list):
        if len(applied) != len(manifest):
            yield path
            return
        for index, pair in enumerate(zip(applied, manifest, strict=True)):
            yield from _undeclared_paths(*pair, f"{path}[{index}]")
