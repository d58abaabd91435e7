"""What a pass knows of the cluster. A value: every observation and every answer to a write makes a new one.

Three answers about an object: seen (in `objects`), certainly absent (in `absent`, or its kind was listed whole and it carries our mark), unknown.
Only consistent reads come in here, so that what is decided from it never rests on a cache.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field, replace
from datetime import datetime
from functools import cached_property

from applier.cluster import Discovery, Object
from applier.errors import ClusterError, Denied
from applier.status import has_pods
from renderer import well_known
from renderer.frozen import dataclass
from renderer.graph.implied_edges import persistent_volume_claims
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD, defined_kind
from renderer.label_selector import Selection

TOO_MANY_DIGITS = 19
"""Of numbers that we write none has so many; Python itself refuses to read some thousands."""


def label(obj: Mapping[str, object], name: str) -> str:
    """A label of a live object; the empty text when absent."""
    return _metadata_text(obj, "labels", name)


def annotation(obj: Mapping[str, object], name: str) -> str:
    """An annotation of a live object; the empty text when absent."""
    return _metadata_text(obj, "annotations", name)


def number(text: str) -> int | None:
    """What an annotation that we wrote as a number says; None where somebody else wrote it otherwise, or there is none."""
    return int(text) if text.isdecimal() and len(text) < TOO_MANY_DIGITS else None


def _metadata_text(obj: Mapping[str, object], place: str, name: str) -> str:
    metadata = obj.get("metadata")
    texts = metadata.get(place) if isinstance(metadata, dict) else None
    text = texts.get(name) if isinstance(texts, dict) else None
    return text if isinstance(text, str) else ""


def _is_same(old: Object, new: Object) -> bool:
    """One version of one object, as much of it as before."""
    before, after = old["metadata"], new["metadata"]
    return (
        before.get("resourceVersion") == after.get("resourceVersion") is not None
        and before.get("uid") == after.get("uid")
        and (old.get("apiVersion"), len(old)) == (new.get("apiVersion"), len(new))
    )


def is_terminating(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def is_controlled(obj: Object) -> bool:
    """Return whether another object is the controller of this one."""
    return any(owner.get("controller") for owner in obj["metadata"].get("ownerReferences") or ())


def has_status_subresource(crd: Object) -> bool:
    """Return whether a version of the CustomResourceDefinition `crd` has the subresource `status`."""
    return any("status" in (version.get("subresources") or {}) for version in crd["spec"]["versions"])


@dataclass(frozen=True)
class Observed:
    """`listed` are the kinds of which every object with an ApplySet label has been listed, and of those in `whole` every object; `failures` is
    what this pass could not write; `selected` what selections found, why they may not be listed, or None where nothing could be told;
    `unreadable` are kinds that could not be listed, and why. With `sets` only members of these (by id) have been listed. `now` is when, by the clock
    of whoever observes; without it ages cannot be judged.
    """

    discovery: Discovery
    objects: Mapping[ObjectKey, Object] = field(default_factory=dict)
    absent: frozenset[ObjectKey] = frozenset()
    listed: frozenset[GroupKind] = frozenset()
    whole: frozenset[GroupKind] = frozenset()
    failures: Mapping[ObjectKey, ClusterError] = field(default_factory=dict)
    selected: Mapping[Selection, tuple[ObjectKey, ...] | Denied | None] = field(default_factory=dict)
    sets: frozenset[str] | None = None
    unreadable: Mapping[GroupKind, ClusterError] = field(default_factory=dict)
    now: datetime | None = None

    @property
    def list_extents(self) -> Hashable:
        """Return what the lists cover: the listed kinds, the kinds that are listed whole, and the sets."""
        return self.listed, self.whole, self.sets

    @property
    def selector(self) -> str:
        """Return the label selector for the lists of kinds that are not listed whole."""
        return well_known.PART_OF if self.sets is None else f"{well_known.PART_OF} in ({','.join(sorted(self.sets))})"

    def with_discovery(self, discovery: Discovery) -> Observed:
        """The same cluster, with the kinds that it serves now."""
        return self if discovery is self.discovery else replace(self, discovery=discovery)

    def with_objects(self, found: Iterable[Object]) -> Observed:
        """These objects exist, as given."""
        new = {ObjectKey.from_manifest(obj): obj for obj in found}
        return replace(self, objects={**self.objects, **new}, absent=self.absent - new.keys())

    def without_objects(self, missing: Iterable[ObjectKey]) -> Observed:
        """These objects do not exist."""
        missing = frozenset(missing)
        return replace(
            self,
            objects={key: obj for key, obj in self.objects.items() if key not in missing},
            absent=self.absent | missing,
        )

    def forget(self, stale: Iterable[ObjectKey]) -> Observed:
        """What was known of these objects no longer holds; look again before deciding."""
        dropped = frozenset(stale)
        return replace(
            self,
            objects={key: obj for key, obj in self.objects.items() if key not in dropped},
            absent=self.absent - dropped,
        )

    def reuse_unchanged(self, before: Mapping[ObjectKey, Object]) -> Observed:
        """The same, with each object that has not changed since as it stands in `before`: what was worked out of it is found again by its identity.

        Of a kind whose CRD has changed the server may show otherwise what is stored unchanged.
        """
        changed = {
            defined_kind(obj)
            for obj in self.crds
            if not ((old := before.get(ObjectKey.from_manifest(obj))) and _is_same(old, obj))
        }
        same = {
            key: old
            for key, obj in self.objects.items()
            if (old := before.get(key)) and _is_same(old, obj) and not (changed and key.group_kind in changed)
        }
        return replace(self, objects={**self.objects, **same})

    def succeeded(self, done: Iterable[ObjectKey]) -> Observed:
        """What once failed of these has been done since."""
        done = frozenset(done)
        return replace(self, failures={key: error for key, error in self.failures.items() if key not in done})

    def with_failures(self, failures: Mapping[ObjectKey, ClusterError]) -> Observed:
        return replace(self, failures={**self.failures, **failures})

    def with_lists(self, kinds: Iterable[GroupKind], found: Iterable[Object]) -> Observed:
        """What a list of these kinds shows is exactly `found`; objects that it does not show, without the label, stay as known."""
        kinds = frozenset(kinds)

        def is_shown(key: ObjectKey, obj: Object) -> bool:
            set_id = label(obj, well_known.PART_OF)
            is_ours = bool(set_id) if self.sets is None else set_id in self.sets
            return key.group_kind in kinds and (key.group_kind in self.whole or is_ours)

        kept = {key: obj for key, obj in self.objects.items() if not is_shown(key, obj)}
        new = {ObjectKey.from_manifest(obj): obj for obj in found}
        vanished = self.objects.keys() - kept.keys() - new.keys()
        return replace(
            self, objects={**kept, **new}, absent=(self.absent | vanished) - new.keys(), listed=self.listed | kinds
        )

    def unlisted(self, kinds: Mapping[GroupKind, ClusterError]) -> Observed:
        """These kinds could not be listed: what was seen of them proves nothing any more."""
        return replace(self, listed=self.listed - kinds.keys(), unreadable={**self.unreadable, **kinds})

    def is_known(self, key: ObjectKey) -> bool:
        return key in self.objects or key in self.absent or key.group_kind in self.listed & self.whole

    def has_none_of(self, kind: GroupKind) -> bool:
        """Certainly no object of this kind exists: it is not served, or not kept, and its group was asked."""
        return self.discovery.has_none_of(kind)

    def is_only_answered(self, kind: GroupKind) -> bool:
        """It is served, and no object of it ever exists."""
        return self.discovery.is_only_answered(kind)

    @property
    def selections(self) -> dict[Selection, tuple[ObjectKey, ...] | str]:
        """Return the known results of selections: the objects, or the reason why the server denies the list."""
        return {one: str(it) if isinstance(it, Denied) else it for one, it in self.selected.items() if it is not None}

    @cached_property
    def crds(self) -> tuple[Object, ...]:
        return tuple(obj for key, obj in self.objects.items() if key.kind == CRD.kind and key.group == CRD.group)

    @cached_property
    def terminating(self) -> frozenset[ObjectKey]:
        """Return the keys of live objects whose deletion has begun."""
        return frozenset(key for key, obj in self.objects.items() if is_terminating(obj))

    @cached_property
    def reporting(self) -> frozenset[GroupKind]:
        """Return the custom kinds whose CRD has the subresource `status`."""
        return frozenset(defined_kind(crd) for crd in self.crds if has_status_subresource(crd))

    @cached_property
    def claimed(self) -> frozenset[tuple[str, ObjectKey]]:
        """Return the PersistentVolumeClaims that live Pods use, each with the id of the ApplySet of the workload."""
        return frozenset(
            (set_id, claim)
            for set_id, members in self.members.items()
            for key in members
            if has_pods(self.objects[key])
            for claim in persistent_volume_claims(self.objects[key], key)
        )

    @property
    def members(self) -> Mapping[str, tuple[ObjectKey, ...]]:
        """Return the keys of live objects, by the id of the ApplySet in their label."""
        return self._marked[0]

    @property
    def parents(self) -> Mapping[ObjectKey, str]:
        """Return the ids of ApplySets by the live objects that declare themselves to be their parents."""
        return self._marked[1]

    @cached_property
    def _marked(self) -> tuple[Mapping[str, tuple[ObjectKey, ...]], Mapping[ObjectKey, str]]:
        members: dict[str, list[ObjectKey]] = defaultdict(list)
        parents: dict[ObjectKey, str] = {}
        for key, obj in self.objects.items():
            if labels := obj["metadata"].get("labels"):
                if part_of := labels.get(well_known.PART_OF):
                    members[part_of].append(key)
                if parent := labels.get(well_known.PARENT_ID):
                    parents[key] = parent
        return {set_id: tuple(sorted(found)) for set_id, found in members.items()}, parents
