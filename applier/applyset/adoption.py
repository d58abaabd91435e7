"""Objects that exist but are in no set: whose they are, whether a source may adopt them, and what becomes of their old owner's fields. Pure.

Adoption happens once. What the old owner applied becomes ours together with the object, so that a field which Git does not say goes away with the
first apply, and fields removed from Git later do not stay for ever (KEP-2155, "upgrading from client-side to server-side apply").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import chain
from typing import Any

import orjson

from applier.applyset import kro
from applier.cluster import CONTENT, PARENT, Object
from applier.state.managed_fields import apply_entry, ownership
from applier.state.observed import annotation, label
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.kinds import CRD

HANDS = ("kubectl", "before-first-apply")
"""Field managers of people, by prefix: what they changed by hand is taken back, unless `levelgate.dev/conflicts` says otherwise."""

_SET_KEYS = ("kubectl-applyset", kro.PARENTS)
"""Field managers of ApplySet keys on parents (KEP-3659): no content, though a prefix may say so."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class AdoptPolicy(StrEnum):
    NEVER = "Never"
    IF_EQUAL = "IfEqual"
    IF_UNOWNED = "IfUnowned"


@dataclass(frozen=True, slots=True)
class Tool:
    """How the objects of another tool are known: prefixes of its field managers, and labels or annotations that it puts on them.

    `stop` says what a person does with the tool first, so that two do not write the same. `records` are paths, by prefix, of what it keeps on its
    objects for itself: no content, and so no difference.
    """

    managers: tuple[str, ...]
    marks: tuple[str, ...]
    stop: str = ""
    records: tuple[str, ...] = ()


TOOLS: Mapping[str, Tool] = {
    "kubectl": Tool(HANDS, ()),
    "flux": Tool(
        ("kustomize-controller", "helm-controller"),
        ("kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name"),
        "suspend it there",
        (".metadata.labels.kustomize.toolkit.fluxcd.io/", ".metadata.labels.helm.toolkit.fluxcd.io/"),
    ),
    "argocd": Tool(
        ("argocd-",),
        ("argocd.argoproj.io/tracking-id",),
        "turn automated sync off there",
        (".metadata.annotations.argocd.argoproj.io/tracking-id",),
    ),
    "helm": Tool(
        ("helm",),
        ("meta.helm.sh/release-name",),
        "leave its release alone, since helm uninstall would delete it,",
        (".metadata.annotations.meta.helm.sh/", f".metadata.labels.{well_known.MANAGED_BY}"),
    ),
    kro.TOOL: Tool(
        (kro.MEMBERS,),
        (kro.OWNED,),
        "stop it",
        (
            ".metadata.labels.kro.run/",
            ".metadata.annotations.internal.kro.run/",
            f".metadata.labels.{well_known.MANAGED_BY}",
        ),
    ),
}
_SET = f".metadata.labels.{well_known.PART_OF}"
_KEPT = "f:kro.run/"
"""Labels of kro that stay: selectors may use them. They belong to nobody afterwards."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """What a source may adopt. `tools` are those whose objects it may have as well; objects made by hand belong to nobody.

    `kro` says what shows that kro runs: as long as it does, nothing of its own is taken.
    """

    policy: AdoptPolicy = AdoptPolicy.NEVER
    tools: frozenset[str] = frozenset()
    kro: str = ""

    @classmethod
    def parse(cls, text: str) -> Adoption:
        """Read `POLICY[:TOOL,...]`. Raises ValueError that says what to write."""
        policy, _, names = text.partition(":")
        tools = frozenset(filter(None, names.split(",")))
        if policy not in set(AdoptPolicy):
            raise ValueError(f"no such policy {policy!r}; write {', '.join(AdoptPolicy)}")
        if unknown := sorted(tools - set(TOOLS)):
            raise ValueError(f"cannot adopt from {', '.join(unknown)}; name {', '.join(TOOLS)}")
        return cls(AdoptPolicy(policy), tools)

    @property
    def heirs_of(self) -> tuple[str, ...]:
        """Tools whose sets are taken with everything in them, as their ids are ours (KEP-3659)."""
        takes = self.policy is not AdoptPolicy.NEVER and kro.TOOL in self.tools and not self.kro
        return (kro.TOOL,) if takes else ()

    def takes(self, live: Object) -> tuple[str, ...]:
        """Field managers, by prefix, whose claims on an adopted object are overruled. kro writes CRDs under no name of its own."""
        return ("",) if _is_crd_of_kro(live) and kro.TOOL in self.tools else self.managers

    @property
    def managers(self) -> tuple[str, ...]:
        """Field managers, by prefix, whose fields become ours."""
        return (*HANDS, *(manager for name in sorted(self.tools) for manager in TOOLS[name].managers))

    def refusal(self, live: Object) -> str:
        """Why this object, which is in no set, may not be adopted; empty when it may."""
        key, tool = ObjectKey.of(live), _tool_of(live)
        for owner in live["metadata"].get("ownerReferences") or ():
            if owner.get("controller"):
                return f"{key} is controlled by {owner.get('kind')} {owner.get('name')}; take it out of Git"
        if self.policy is AdoptPolicy.NEVER and tool:
            way = f"{TOOLS[tool].stop} and adopt it: --adopt {AdoptPolicy.IF_UNOWNED}:{tool}"
            return f"{key} exists and is managed by {tool}; take it out of Git, or {way}"
        if self.policy is AdoptPolicy.NEVER:
            return f"{key} exists and is not managed by Levelgate; adopt it (`adopt` of the source, or --adopt), or take it out of Git"
        if tool == kro.TOOL and self.kro:
            return f"{key} is managed by kro, which runs: {self.kro}; stop it before its objects are taken over"
        if tool and tool not in self.tools:
            return f"{key} is managed by {tool}; {TOOLS[tool].stop} and name it: --adopt {self.policy}:{tool}"
        return ""


NEVER = Adoption()
"""The default: what exists and is not ours stays as it is."""


def _tool_of(live: Object) -> str:
    """The tool whose mark the object carries, else the one that wrote it (Argo CD may mark by a label of anybody's, Helm marks no CRDs of a chart);
    empty if there is none.
    """
    entries = live["metadata"].get("managedFields") or ()
    marked = (
        name for name, tool in TOOLS.items() if any(label(live, mark) or annotation(live, mark) for mark in tool.marks)
    )
    wrote = (
        name for name, tool in TOOLS.items() if tool.stop and any(_is_of(entry, tool.managers) for entry in entries)
    )
    return next(chain(marked, wrote), "")


def migrated(live: Object, managers: tuple[str, ...]) -> list[Object] | None:
    """The managed fields with what these managers applied as ours; None where they applied nothing.

    Applied is what an Apply entry owns, and an Update entry that wrote the last applied configuration. Other updates own defaults as well, so what
    they own and Git does not say has to stay: of a tool that left its own records by one (Helm before version 4) only those become ours, to go away,
    and all else belongs to nobody until it is applied. Those of controllers and of `kubectl edit` stay.
    """
    entries: list[Object] = live["metadata"].get("managedFields") or []
    taken = [entry for entry in applied_by(live, managers) if entry["apiVersion"] == live["apiVersion"]]
    if _is_crd_of_kro(live):
        return [entry for entry in entries if entry.get("subresource")] or [{}]
    tools = tuple(name for name in managers if name not in HANDS)
    left = [entry for entry in entries if entry not in taken and _is_of(entry, tools) and _recorded(entry)]
    if not taken and not left:
        return None
    own = apply_entry(live, CONTENT)
    ours = {**(own or [*taken, *left][0]), "manager": CONTENT, "operation": "Apply"}
    fields: Object = {}
    for part in (*((entry.get("fieldsV1") or {}) for entry in (own, *taken) if entry), *map(_recorded, left)):
        _unite(fields, part)
    labels = fields.get("f:metadata", {}).get("f:labels", {})
    for name in [name for name in labels if name.startswith(_KEPT)]:
        del labels[name]
    rest = [entry for entry in entries if entry not in (*taken, *left) and entry is not own]
    return [{**ours, "fieldsV1": fields}, *rest]


def inherited(parent: Object) -> Object:
    """The merge patch that makes the ApplySet keys which kro applied to exactly this instance ours, and drops its finalizer.

    Labels stay and belong to nobody. The keys keep their values, so the set is kro's until they are applied over.
    """
    metadata = parent["metadata"]
    entries = metadata.get("managedFields") or []
    theirs = [entry for entry in entries if entry["manager"] in {kro.PARENTS, kro.LABELLER}]
    fields: Object = {}
    for entry in (apply_entry(parent, PARENT) or {}, *(one for one in theirs if one["manager"] == kro.PARENTS)):
        _unite(fields, entry.get("fieldsV1") or {})
    rest = [entry for entry in entries if entry not in theirs and entry != apply_entry(parent, PARENT)]
    ours = {"manager": PARENT, "operation": "Apply", "apiVersion": parent["apiVersion"], "fieldsType": "FieldsV1"}
    return {
        "metadata": {
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "finalizers": [name for name in metadata.get("finalizers") or () if name != kro.FINALIZER],
            "managedFields": [*([{**ours, "fieldsV1": fields}] if fields else []), *rest] or [{}],
        }
    }


def differences(live: Object, applied: Object, manifest: Object, managers: tuple[str, ...]) -> tuple[str, ...]:
    """Fields in which adopting would change the object: `applied` is the server's dry run; fields that Git does not say would be removed."""
    changed = _differing(_comparable(live), _comparable(applied))
    return tuple(sorted({*changed, *unsaid(live, manifest, managers)}))


def unsaid(live: Object, manifest: Object, managers: tuple[str, ...]) -> tuple[str, ...]:
    """Fields that these managers applied and Git does not say: adopting removes them, which no dry run shows. What tools record for themselves, and
    whose set it was, is none of them.
    """
    metadata = manifest.get("metadata") or {}
    texts = {
        name: metadata.get(name) or {} for name in ("labels", "annotations")
    }  # else all of them would be one field
    manifest = {**manifest, "metadata": {**metadata, **texts}}
    found = [*_unsaid(orjson.loads(annotation(live, LAST_APPLIED) or "{}"), manifest)]
    for entry in applied_by(live, managers):
        if entry.get("operation") == "Apply":
            theirs = ownership(live, manifest, entry["manager"])
            found += theirs.surplus if theirs else ()
    records = (_SET, *(path for tool in TOOLS.values() for path in tool.records))
    return tuple(sorted({path for path in found if not path.startswith(records)}))


def applied_by(live: Object, managers: tuple[str, ...]) -> list[Object]:
    """The managed fields that these managers, named by prefix, applied to the object itself, client-side or server-side."""
    return [entry for entry in live["metadata"].get("managedFields") or () if _is_applied(entry, managers)]


def _is_crd_of_kro(live: Object) -> bool:
    return ObjectKey.of(live).group_kind == CRD and bool(label(live, kro.OWNED))


def _is_of(entry: Mapping[str, Any], managers: tuple[str, ...]) -> bool:
    """Of the object itself, by one of these managers."""
    manager = str(entry.get("manager"))
    return not entry.get("subresource") and manager.startswith(managers) and manager not in _SET_KEYS


def _is_applied(entry: Mapping[str, Any], managers: tuple[str, ...]) -> bool:
    annotations = (entry.get("fieldsV1") or {}).get("f:metadata", {}).get("f:annotations", {})
    return _is_of(entry, managers) and (entry.get("operation") == "Apply" or f"f:{LAST_APPLIED}" in annotations)


def _recorded(entry: Mapping[str, Any]) -> Object:
    """The part of an entry that is a tool's record of itself; what of kro stays is none."""
    paths = tuple(path for tool in TOOLS.values() for path in tool.records)
    found: Object = {}
    for place in ("labels", "annotations"):
        for name in (entry.get("fieldsV1") or {}).get("f:metadata", {}).get(f"f:{place}", {}):
            if f".metadata.{place}.{name.removeprefix('f:')}".startswith(paths) and not name.startswith(_KEPT):
                _unite(found, {"f:metadata": {f"f:{place}": {name: {}}}})
    return found


def _unite(fields: Object, more: Mapping[str, Any]) -> None:
    for name, below in more.items():
        _unite(fields.setdefault(name, {}), below)


def _comparable(obj: Object) -> Object:
    """Content, labels and annotations, without what we record ourselves and what the server keeps."""
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


def _differing(left: Any, right: Any, path: str = "") -> Iterator[str]:
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted({*left, *right}):
            yield from _differing(left.get(name), right.get(name), f"{path}.{name}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, pair in enumerate(zip(left, right, strict=True)):
            yield from _differing(*pair, f"{path}[{index}]")
    elif left != right:
        yield path


def _unsaid(said: Any, manifest: Any, path: str = "") -> Iterator[str]:
    """What was said there and is not said here, leaving values aside."""
    if isinstance(said, dict) and isinstance(manifest, dict):
        for name, value in said.items():
            if value not in (None, {}, []) and path + name != "status":
                if manifest.get(name) is None:
                    yield f"{path}.{name}"
                else:
                    yield from _unsaid(value, manifest[name], f"{path}.{name}")
    elif isinstance(said, list) and isinstance(manifest, list):
        if len(said) != len(manifest):
            yield path
            return
        for index, pair in enumerate(zip(said, manifest, strict=True)):
            yield from _unsaid(*pair, f"{path}[{index}]")
