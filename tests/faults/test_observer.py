"""The observer, on records of what a server might have done: it reports breaches, and nothing else. Without a cluster."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from renderer.identity import OWN_NAMESPACE
from tests.support.cluster.audit import AuditEvent
from tests.support.faults.lane import Object, PathKey
from tests.support.faults.observer import ObservedHistory, fleet_violations, violations

START = datetime(2026, 11, 21, tzinfo=UTC)
PARENT = PathKey("g.test", "chains", "ns", "one")
CONDITIONS = {"preconditions": {"uid": "u", "resourceVersion": "1"}}


def named(name: str) -> PathKey:
    return PathKey("", "configmaps", "ns", name)


def config_map(name: str, *, part_of: str = "set", **data: str) -> Object:
    metadata: Object = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    if part_of:
        metadata["labels"] = {"applyset.kubernetes.io/part-of": part_of}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def parent(kinds: str = "ConfigMap") -> Object:
    metadata = {
        "name": "one",
        "namespace": "ns",
        "labels": {"applyset.kubernetes.io/id": "set"},
        "annotations": {"applyset.kubernetes.io/contains-group-kinds": kinds},
    }
    return {"apiVersion": "g.test/v1", "kind": "Chain", "metadata": metadata}


def event(verb: str, key: PathKey, *, at: float, took: float = 0.1, **more: Any) -> AuditEvent:
    defaults = {"user": "levelgate", "code": 200, "request": None, "response": {"kind": "Status"}}
    return AuditEvent(
        **{**defaults, **more},
        verb=verb,
        group=key.group,
        resource=key.resource,
        subresource="",
        namespace=key.namespace,
        name=key.name,
        uri=f"/{key}",
        time=START + timedelta(seconds=at),
        answered=START + timedelta(seconds=at + took),
    )


def judged(start: dict[PathKey, Object], *events: AuditEvent, **options: Any) -> list[str]:
    return violations(ObservedHistory.of(start, events), events, **{"target": {}, **options})


def test_a_member_of_a_kind_that_its_parent_does_not_name_is_a_breach() -> None:
    """I1."""
    made = event("patch", named("a"), at=0, response=config_map("a"))
    assert judged({PARENT: parent()}, made) == []
    assert judged({PARENT: parent("Secret")}, made) == [
        "I1: after patch configmaps/ns/a the parent chains/ns/one does not cover configmaps/ns/a"
    ]


def test_a_scope_that_shrinks_under_a_live_member_is_a_breach() -> None:
    """I1."""
    shrunk = event("patch", PARENT, at=0, response=parent(""))
    assert len(judged({PARENT: parent(), named("a"): config_map("a")}, shrunk)) == 1
    assert judged({PARENT: parent()}, shrunk) == []


def test_a_deletion_must_name_uid_and_version_and_mean_a_member() -> None:
    """I2."""
    start = {PARENT: parent(), named("a"): config_map("a"), named("b"): config_map("b", part_of="")}
    assert judged(start, event("delete", named("a"), at=0, request=CONDITIONS)) == []
    assert judged(start, event("delete", named("a"), at=0)) == [
        "I2: delete configmaps/ns/a without the uid and the resourceVersion that were seen"
    ]
    assert judged(start, event("delete", named("b"), at=0, request=CONDITIONS)) == [
        "I2: delete configmaps/ns/b, which no set contained"
    ]
    others = event("patch", named("b"), at=0, response=config_map("b", part_of=""))
    assert judged(start, others, foreign=[named("b")]) == ["I2: patch configmaps/ns/b, which is not ours"]


def test_what_is_used_must_be_there_and_as_the_commit_wants_it() -> None:
    """I3: the order is of answers; what was under way at the same time is no ground to stand on."""
    start = {PARENT: parent(), named("a"): config_map("a", text="old")}
    target = {named("a"): config_map("a", text="new")}
    first = event("patch", named("a"), at=0, response=config_map("a", text="new"))
    after = event("patch", named("b"), at=1, response=config_map("b", **{"reads-a": "a"}))
    together = event("patch", named("b"), at=0.05, response=config_map("b", **{"reads-a": "a"}))
    assert judged(start, first, after, target=target) == []
    assert judged(start, first, together, target=target) == [
        "I3: patch configmaps/ns/b before configmaps/ns/a is as the commit wants it"
    ]


def test_what_is_still_used_must_not_go() -> None:
    """I4: of absence, so a deletion that a finalizer holds back, or that is under way, is none."""
    start = {
        PARENT: parent(),
        named("a"): config_map("a"),
        named("b"): config_map("b", **{"reads-a": "a"}),
    }
    user = event("delete", named("b"), at=0, request=CONDITIONS)
    used = event("delete", named("a"), at=1, request=CONDITIONS)
    assert judged(start, user, used) == []
    assert judged(start, used) == ["I4: delete configmaps/ns/a while configmaps/ns/b is still there"]
    assert len(judged(start, user, event("delete", named("a"), at=0.05, request=CONDITIONS))) == 1
    held = config_map("b", **{"reads-a": "a"})
    held["metadata"] |= {"deletionTimestamp": "2026-11-21T00:00:00Z", "finalizers": ["test.example/hold"]}
    assert len(judged(start, event("delete", named("b"), at=0, request=CONDITIONS, response=held), used)) == 1


def test_what_others_do_and_what_was_refused_is_no_breach() -> None:
    start = {PARENT: parent(), named("a"): config_map("a"), named("b"): config_map("b", **{"reads-a": "a"})}
    assert judged(start, event("delete", named("a"), at=0, user="person")) == []
    assert judged(start, event("delete", named("a"), at=0, code=409)) == []


def test_a_list_that_may_come_from_a_cache_is_a_breach() -> None:
    """I4."""
    stale = event("list", PathKey("", "configmaps", "ns", "?resourceVersion=0"), at=0)
    assert judged({}, stale) == ["I4: a list that may be stale: /configmaps/ns/?resourceVersion=0"]


MARK, RECORD = (
    PathKey("", "configmaps", OWN_NAMESPACE, "levelgate"),
    PathKey("", "configmaps", OWN_NAMESPACE, "cluster-eu"),
)


def of_hub(uid: str = "u", on_remove: str = "Delete", hub: str = "hub") -> dict[PathKey, Object]:
    """The record of a cluster, and the mark on it."""
    declared = json.dumps({"manifest": {"spec": {"onRemove": on_remove}}})
    data = {RECORD: {"uid": uid, "declared": declared}, MARK: {"hub": hub} if hub else {}}
    labels = {"internal.levelgate.dev/record": "cluster"}
    return {
        key: {"metadata": {"name": key.name, "namespace": key.namespace, "labels": labels}, "data": data[key]}
        for key in data
    }


def judged_of_hub(start: dict[PathKey, Object], *events: AuditEvent) -> list[str]:
    return fleet_violations(ObservedHistory.of(start, events), RECORD, MARK)


def test_a_cluster_is_recorded_and_marked_before_anything_is_written_there() -> None:
    """S3-22."""
    made = event("patch", named("a"), at=1, response=config_map("a"))
    breach = ["S3-22: patch configmaps/ns/a in a cluster that is not recorded, or not marked"]
    assert judged_of_hub(of_hub(), made) == []
    assert judged_of_hub(of_hub(uid=""), made) == breach
    assert judged_of_hub(of_hub(hub=""), made) == breach
    marked = event("patch", MARK, at=0, response=of_hub()[MARK])
    assert judged_of_hub(of_hub(hub=""), marked, made) == []


def test_a_cluster_is_released_when_all_has_gone_and_its_record_goes_last() -> None:
    """S3-22: what `Orphan` leaves there holds nothing up."""
    gone = event("delete", named("a"), at=0)
    released = event("patch", MARK, at=1, response=of_hub(hub="")[MARK])
    forgotten = event("delete", RECORD, at=2)
    start = {**of_hub(), named("a"): config_map("a")}
    assert judged_of_hub(start, gone, released, forgotten) == []
    assert judged_of_hub(start, released) == [f"S3-22: patch {MARK} while configmaps/ns/a is there"]
    assert judged_of_hub({**start, **of_hub(on_remove="Orphan")}, released, forgotten) == []
    assert judged_of_hub(start, gone, forgotten) == [f"S3-22: delete {RECORD} while the cluster is marked"]
    assert judged(of_hub(), forgotten) == []
