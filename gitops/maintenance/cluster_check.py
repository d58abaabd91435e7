"""Findings of `levelgate check`, derived from facts about a cluster. Pure.

A problem stops Levelgate or leads to a fault. A warning describes a risk that a person should know. If an area has
neither problems nor warnings, a single finding summarizes the area.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from itertools import groupby

from applier import status
from applier.applyset import inventory, kro
from applier.applyset.adoption import TOOLS, entries_applied_by
from applier.applyset.inventory import ForeignSet
from applier.applyset.member import has_own_finalizer, is_membership_proven, is_of_set
from applier.cluster import CONTENT_MANAGER, Object
from applier.read.left_behind import is_unlabelled_member
from applier.read.leftovers import is_our_parent, our_sets
from applier.state.managed_fields import apply_entry
from applier.state.observed import annotation, is_terminating, label
from gitops.durations import format_duration
from gitops.maintenance.cluster_facts import ClusterFacts
from gitops.records import applied_packs, revisions
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey, applyset_id
from renderer.kinds import defined_kind, is_built_in
from renderer.phrasing import format_count

TERMINATION_TIMEOUT = timedelta(minutes=10)
"""Time for which an instance may be terminating before its deletion counts as hanging."""

_GRANT_ADVICE = (
    "grant the permission to the user of this kubeconfig; "
    f"deploy/kubernetes.yaml aggregates all ClusterRoles with the label {well_known.AGGREGATE}: levelgate"
)
_UNINSTALL_ADVICE = "run `levelgate uninstall` to remove the rest of an installation"
_OTHER_MANAGERS = tuple(manager for tool in TOOLS.values() for manager in tool.manager_prefixes)


class CheckLevel(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """Message of the check about one area, with its severity, advice and objects."""

    level: CheckLevel
    area: str
    message: str
    advice: str = ""
    """Next step for the person, or an empty string if the finding needs no step."""
    objects: tuple[ObjectKey, ...] = ()
    """Keys of the objects that the finding is about. A key without a name stands for a kind."""


def check_cluster(facts: ClusterFacts) -> list[CheckFinding]:
    """Return the findings about `facts`, grouped by area in a fixed order."""
    checker = _ClusterChecker(facts)
    areas = {
        "cluster": (
            checker.check_api_groups(),
            f"Kubernetes {facts.kubernetes_version} serves {len(facts.survey.discovery.resources)} kinds",
        ),
        "permissions": (checker.check_permissions(), "all required permissions are granted"),
        "definitions": (checker.check_definitions(), f"{len(facts.crds)} established and served"),
        "sets": (checker.check_sets(), checker.set_summary),
        "leftovers": (checker.check_leftovers(), "none"),
        "kro": (
            checker.check_kro(),
            f"runs ({facts.kro}); Levelgate does not change objects of kro" if facts.kro else "does not run here",
        ),
    }
    return [
        finding
        for area, (findings, summary) in areas.items()
        for finding in (list(findings) or [CheckFinding(CheckLevel.OK, area, summary)])
    ]


@dataclass(frozen=True)
class _ClusterChecker:
    """Checker of all areas, based on the facts about one cluster."""

    facts: ClusterFacts

    @cached_property
    def objects(self) -> list[tuple[ObjectKey, Object]]:
        return sorted(self.facts.survey.objects.items(), key=lambda item: item[0])

    @cached_property
    def instances(self) -> frozenset[ObjectKey]:
        """Return the keys of the instances in the records of sources. Some of these instances may not exist."""
        return frozenset(key for record in self.facts.records.values() for key in record.scopes)

    @cached_property
    def known_sets(self) -> frozenset[str]:
        """Return the ids of Levelgate's ApplySets whose parent exists or is in the record of a source."""
        live = {applyset_id(key) for key, obj in self.objects if is_our_parent(obj)}
        return frozenset(live | set(map(applyset_id, self.instances)))

    @cached_property
    def members(self) -> list[tuple[ObjectKey, Object]]:
        """Return the members of the ApplySets in `known_sets`."""
        return [(key, obj) for key, obj in self.objects if label(obj, well_known.PART_OF) in self.known_sets]

    @property
    def set_summary(self) -> str:
        """Return a text with the numbers of sources, instances and members."""
        instances = sum(is_our_parent(obj) and not is_built_in(key.group_kind) for key, obj in self.objects)
        counts = {"source": len(self.facts.records), "instance": instances, "member": len(self.members)}
        return ", ".join(format_count(number, noun) for noun, number in counts.items())

    def check_api_groups(self) -> Iterator[CheckFinding]:
        """Yield warnings about API groups that do not answer, and about kinds that Levelgate cannot list."""
        for group in sorted(self.facts.survey.discovery.stale_groups):
            advice = "see `kubectl get apiservices`; until the group answers, Levelgate deletes no objects of its kinds"
            yield CheckFinding(CheckLevel.WARNING, "cluster", f"the API group {group} does not answer", advice)
        if refused := self.facts.survey.list_errors:
            message = f"Levelgate cannot search {format_count(len(refused), 'kind')} for its metadata"
            kinds = tuple(ObjectKey(*kind, "", "") for kind in sorted(refused))
            advice = f"run `levelgate check -o json` to list the kinds; the first: {next(iter(refused.values()))}"
            yield CheckFinding(CheckLevel.WARNING, "cluster", message, advice, kinds)

    def check_permissions(self) -> Iterator[CheckFinding]:
        """Yield a problem for each resource with the verbs that Levelgate needs on it but may not use."""
        for resource, lacking in groupby(
            self.facts.missing_permissions, key=lambda permission: replace(permission, verb="")
        ):
            verbs = ", ".join(permission.verb for permission in lacking)
            yield CheckFinding(
                CheckLevel.PROBLEM, "permissions", f"not allowed: {replace(resource, verb=verbs)}", _GRANT_ADVICE
            )

    def check_definitions(self) -> Iterator[CheckFinding]:
        """Yield a problem for each CRD that the API server does not serve."""
        for key, crd in sorted(self.facts.crds.items()):
            if not status.is_ready_by_existence(crd):
                message = status.health(crd).message or "not established yet"
                advice = f"see `kubectl describe crd {key.name}`"
                yield CheckFinding(CheckLevel.PROBLEM, "definitions", f"not served: {message}", advice, (key,))
            elif not self._is_served(defined_kind(crd)):
                advice = "if the problem lasts, see the log of the API server"
                yield CheckFinding(CheckLevel.PROBLEM, "definitions", "established, but not served", advice, (key,))

    def check_sets(self) -> Iterator[CheckFinding]:
        """Yield findings about parents and their inventories, and about members that Levelgate does not fully prune."""
        for key, obj in self.objects:
            if label(obj, well_known.PARENT_ID) and (is_our_parent(obj) or has_own_finalizer(obj)):
                yield from self._check_set(key, obj)
        not_adopted = {
            key
            for key, obj in self.members
            if not apply_entry(obj, CONTENT_MANAGER) and entries_applied_by(obj, _OTHER_MANAGERS)
        }
        parents = {applyset_id(key): obj for key, obj in self.objects if is_our_parent(obj)}
        unproven = (
            key
            for key, obj in self.members
            if not (is_membership_proven(obj) or _is_returned(obj, parents)) and key not in not_adopted
        )
        unrecorded = (
            key for key, obj in self.members if is_membership_proven(obj) and not annotation(obj, well_known.SELF)
        )
        shared = (
            key
            for key, obj in self.members
            if apply_entry(obj, CONTENT_MANAGER) and entries_applied_by(obj, _OTHER_MANAGERS)
        )
        yield from _finding_about(
            unproven,
            "sets",
            "members that Levelgate did not apply, or that another controller owns: Levelgate never prunes them",
            f"remove the label {well_known.PART_OF} from objects that do not belong to the set",
        )
        yield from _finding_about(
            sorted(not_adopted),
            "sets",
            "members that another tool applied and Levelgate did not: Levelgate does not prune them",
            "while the set is being adopted, keep `levelgate run` running and see `levelgate status`; "
            f"otherwise remove the label {well_known.PART_OF}",
        )
        yield from _finding_about(
            unrecorded,
            "sets",
            "members without a recorded level: Levelgate prunes them last",
            "wait for the next reconciliation, which records the level of each member that Git still declares",
        )
        yield from _finding_about(
            shared,
            "sets",
            "members with fields that another tool owns: after their removal from Git, these fields stay",
            "stop that tool; then remove its entry from metadata.managedFields, or let the tool release the object",
        )

    def _check_set(self, key: ObjectKey, obj: Object) -> Iterator[CheckFinding]:
        """Yield findings about the parent `obj`: its scope, its version, and members outside of the scope."""
        try:
            scope = inventory.read_scope(obj)
        except ForeignSet as error:
            problem, _, advice = str(error).rpartition("; ")
            yield CheckFinding(CheckLevel.PROBLEM, "sets", problem, advice, (key,))
            return
        tooling = annotation(obj, well_known.TOOLING)
        if _version_numbers(tooling) > _version_numbers(self.facts.version):
            advice = f"use {tooling} or a later version; this version, {self.facts.version}, may misread the records"
            yield CheckFinding(CheckLevel.PROBLEM, "sets", f"written by {tooling}", advice, (key,))
        if unserved := sorted(str(kind) for kind in scope.kinds if not self._is_served(kind)):
            advice = (
                "wait for the next reconciliation, which drops kinds without a member from the inventory; "
                "until then, kubectl cannot take over the set"
            )
            message = f"the inventory names {', '.join(unserved)}, which the cluster does not serve"
            yield CheckFinding(CheckLevel.WARNING, "sets", message, advice, (key,))
        if uncovered := tuple(
            member_key
            for member_key, member in self.members
            if label(member, well_known.PART_OF) == applyset_id(key)
            and not scope >= inventory.scope_of([member_key], key)
        ):
            message = f"the inventory of {key} does not cover all its members"
            annotations = f"{well_known.GROUP_KINDS} and {well_known.NAMESPACES}"
            advice = f"restore the annotations {annotations}; Levelgate does not prune kinds that they omit"
            yield CheckFinding(CheckLevel.PROBLEM, "sets", message, advice, uncovered)

    def check_leftovers(self) -> Iterator[CheckFinding]:
        """Yield warnings about metadata and records that no reconciliation removes."""
        ours = our_sets(self.facts.survey)
        without_parent = {key for key, obj in self.objects if label(obj, well_known.PART_OF) in ours - self.known_sets}
        instances = {key: obj for key, obj in self.objects if has_own_finalizer(obj)}
        unknown = [
            key
            for key, obj in instances.items()
            if key not in self.instances and label(obj, well_known.PART_OF) not in self.known_sets
        ]
        hanging = (key for key, obj in instances.items() if self._is_hanging(obj))
        ownerless = (
            key
            for key, obj in self.objects
            if key.group_kind == applied_packs.KIND and label(obj, well_known.RECORD) and not self._has_owner(obj)
        )
        unreadable = [key for key, obj in self.objects if _is_unreadable_pack(key, obj)]
        without_set = {
            key: obj
            for key, obj in self.objects
            if apply_entry(obj, CONTENT_MANAGER)
            and not label(obj, well_known.PART_OF)
            and key.namespace != OWN_NAMESPACE
        }
        unlabelled = [key for key, obj in without_set.items() if is_unlabelled_member(obj, ())]
        yield from _finding_about(
            unlabelled,
            "leftovers",
            f"members that have lost the label {well_known.PART_OF}: Levelgate never prunes them",
            "the next reconciliation restores the label on members in Git; "
            "for each other member, run `levelgate explain TYPE/NAME` to see how to delete or keep it",
        )
        yield from _finding_about(
            sorted(without_parent - {*unknown}),
            "leftovers",
            "members of sets whose parent does not exist",
            f"configure their source again; or {_UNINSTALL_ADVICE}",
        )
        yield from _finding_about(
            unknown,
            "leftovers",
            "instances with Levelgate's finalizer that no source knows: their deletion would hang",
            f"configure their source again; or {_UNINSTALL_ADVICE}",
        )
        yield from _finding_about(
            hanging,
            "leftovers",
            f"instances that have been terminating for more than {format_duration(TERMINATION_TIMEOUT)}"
            " and wait for Levelgate's finalizer",
            "check that `levelgate run` works; run `levelgate status` to see the reason for the wait",
        )
        yield from _finding_about(
            unreadable,
            "leftovers",
            f"packs of applied snapshots whose annotation {well_known.PACK_INDEX} cannot be read",
            "restore the annotation from a backup, or delete the packs: "
            "Levelgate then treats instances without another snapshot as never applied completely",
        )
        yield from _finding_about(
            (key for key in ownerless if key not in unreadable),
            "leftovers",
            "stored revisions of objects that no longer exist",
            "the next reconciliation of their source deletes the stored revisions of instances; "
            "delete the others, because Levelgate renders no manifest from them",
        )
        yield from _finding_about(
            (key for key in without_set if key not in unlabelled),
            "leftovers",
            "objects in no set, with fields that Levelgate applied: released, or not completely adopted",
            f"wait for the next reconciliation, which adopts objects in Git; or {_UNINSTALL_ADVICE}",
        )

    def check_kro(self) -> Iterator[CheckFinding]:
        """Yield findings about kro.

        While kro runs, it may be a second writer of Levelgate's instances. While kro does not run, the deletion of an
        instance with kro's finalizer would hang.
        """
        if self.facts.kro:
            yield from _finding_about(
                (key for key, crd in self.facts.crds.items() if label(crd, kro.OWNED_LABEL)),
                "kro",
                f"kro runs ({self.facts.kro}), and Levelgate manages kinds that kro defined",
                "stop kro or Levelgate, because both would write the instances of these kinds",
                level=CheckLevel.PROBLEM,
            )
            return
        yield from _finding_about(
            (key for key, obj in self.objects if kro.FINALIZER in _finalizers(obj)),
            "kro",
            "instances with kro's finalizer while kro does not run: their deletion would hang",
            "start kro, or adopt the instances with `levelgate run --adopt IfUnowned:kro`",
        )
        ours = set(map(defined_kind, self.facts.crds.values()))
        yield from _finding_about(
            (key for key, kind in sorted(self.facts.kro_definitions.items()) if kind in ours),
            "kro",
            "definitions of kro for kinds that Levelgate manages: if kro starts, kro takes over their instances",
            "while kro is stopped, delete the definitions and remove kro's finalizer",
        )

    def _is_served(self, kind: GroupKind) -> bool:
        discovery = self.facts.survey.discovery
        return kind in discovery.resources or kind.group in discovery.stale_groups

    def _is_hanging(self, obj: Object) -> bool:
        return is_terminating(obj) and (
            self.facts.now - datetime.fromisoformat(obj["metadata"]["deletionTimestamp"]) > TERMINATION_TIMEOUT
        )

    def _has_owner(self, record: Object) -> bool:
        """Return whether the object that the ControllerRevision `record` belongs to still exists.

        A pack with an applied snapshot belongs to its instances. A pack with only tombstones belongs to its source. A
        revision belongs to the CRD of its definition. Accepted rules belong to their source.
        """
        owner_parts = annotation(record, well_known.RECORD_OF).split("/")
        match label(record, well_known.RECORD):
            case applied_packs.APPLIED:
                pairs = applied_packs.pack_entries(record)
                if pairs and all(pair.is_gone for pair in pairs.values()):
                    return annotation(record, well_known.RECORD_SOURCE) in self.facts.records
                return not pairs.keys().isdisjoint(self.instances | self.facts.survey.objects.keys())
            case revisions.DEFINITION if len(owner_parts) == 2:
                return GroupKind(*owner_parts) in map(defined_kind, self.facts.crds.values())
            case revisions.RULES:
                return annotation(record, well_known.RECORD_SOURCE) in self.facts.records
        return False


def _is_unreadable_pack(key: ObjectKey, obj: Object) -> bool:
    """Return whether `obj` is a pack of applied snapshots without a readable index."""
    if key.group_kind != applied_packs.KIND or label(obj, well_known.RECORD) != applied_packs.APPLIED:
        return False
    return not applied_packs.AppliedPack.from_record(obj).is_readable


def _finding_about(
    objects: Iterable[ObjectKey], area: str, message: str, advice: str, *, level: CheckLevel = CheckLevel.WARNING
) -> Iterator[CheckFinding]:
    """Yield one finding about all `objects`. If `objects` is empty, yield nothing."""
    if keys := tuple(objects):
        yield CheckFinding(level, area, message, advice, keys)


def _is_returned(obj: Object, parents: Mapping[str, Object]) -> bool:
    """Return whether the annotations of `obj` prove its membership in the set that its label `part-of` names."""
    parent = parents.get(label(obj, well_known.PART_OF))
    return parent is not None and is_of_set(obj, parent)


def _finalizers(obj: Object) -> list[str]:
    return obj["metadata"].get("finalizers") or []


def _version_numbers(version: str) -> list[int]:
    """Return the numbers in a version such as `levelgate/v0.4.0`, for comparisons. Ignore a suffix."""
    number_match = re.search(r"\d+(\.\d+)*", version)
    return list(map(int, number_match.group().split("."))) if number_match else []
