"""Live objects in the graph against `Observed`, which computes everything again from all objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from applier.cluster import Discovery, Object, Resource
from applier.errors import Denied
from applier.state.observed import Observed
from gitops.decisions import live
from gitops.decisions.live import ListExtent
from gitops.queries import QueryGraph, Roots, query
from renderer import well_known
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD

CONFIG_MAP, DEPLOYMENT = GroupKind("", "ConfigMap"), GroupKind("apps", "Deployment")
KINDS: Final = (CONFIG_MAP, DEPLOYMENT, CRD)
WHOLE: Final = frozenset({CRD})
SETS: Final = ("set-a", "set-b")
NAMES: Final = ("a", "b", "c")
DEFINED: Final = GroupKind("g.test", "App")

Step = tuple[Any, ...]


def key_of(kind: GroupKind, name: str) -> ObjectKey:
    return ObjectKey(kind.group, kind.kind, "" if kind == CRD else "default", name)


KEYS: Final = tuple(key_of(kind, name) for kind in KINDS for name in NAMES)


def body(key: ObjectKey, set_id: str, parent_id: str, variant: int) -> Object:
    labels = {well_known.PART_OF: set_id, well_known.PARENT_ID: parent_id}
    metadata = {"name": key.name, "labels": {name: value for name, value in labels.items() if value}}
    obj: Object = {"apiVersion": "v1", "kind": key.kind, "metadata": metadata}
    if key.namespace:
        metadata["namespace"] = key.namespace
    match key.group_kind:
        case kind if kind == DEPLOYMENT:
            volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"claim-{variant}"}}]
            replicas = variant % 2
            obj |= {
                "apiVersion": "apps/v1",
                "spec": {"replicas": replicas, "template": {"spec": {"volumes": volumes}}},
                "status": {"replicas": replicas},
            }
        case kind if kind == CRD:
            version = {"name": "v1", "subresources": {"status": {}} if variant % 2 else {}}
            obj |= {
                "apiVersion": "apiextensions.k8s.io/v1",
                "spec": {"group": DEFINED.group, "names": {"kind": DEFINED.kind}, "versions": [version]},
            }
        case _:
            obj["data"] = {"variant": str(variant)}
    return obj


@st.composite
def objects(draw: st.DrawFn, keys: Sequence[ObjectKey]) -> Object:
    """Draw an object with one of `keys`."""
    set_id, parent_id = draw(st.sampled_from(("", *SETS))), draw(st.sampled_from(("", "", *SETS)))
    return body(draw(st.sampled_from(keys)), set_id, parent_id, draw(st.integers(0, 2)))


@st.composite
def lists(draw: st.DrawFn) -> Step:
    """Draw a list of one kind, as the server returns it: of a kind that is not listed whole, marked objects only."""
    kind = draw(st.sampled_from(KINDS))
    found = draw(st.lists(objects([key for key in KEYS if key.group_kind == kind]), max_size=3))
    by_key = {ObjectKey.from_manifest(obj): obj for obj in found}
    marked = [obj for obj in by_key.values() if kind in WHOLE or well_known.PART_OF in obj["metadata"]["labels"]]
    return "list", kind, marked


KEY_SETS = st.sets(st.sampled_from(KEYS), min_size=1, max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("objects"), st.lists(objects(KEYS), min_size=1, max_size=3)),
        st.tuples(st.just("absent"), KEY_SETS),
        st.tuples(st.just("forget"), KEY_SETS),
        lists(),
        st.tuples(st.just("unlisted"), st.sampled_from(KINDS)),
    ),
    max_size=12,
)


def apply(graph: QueryGraph, observed: Observed, step: Step) -> Observed:
    """Make the change of `step` in the graph and in the observation."""
    known = live.listed_keys(graph, step[1]) if step[0] == "list" else {}
    with graph.transaction() as transaction:
        match step:
            case ("objects", found):
                live.set_objects(transaction, found)
                return observed.with_objects(found)
            case ("absent", keys):
                live.set_absent(transaction, keys)
                return observed.without_objects(keys)
            case ("forget", keys):
                live.doubt(transaction, keys)
                return observed.forget(keys)
            case ("list", kind, found):
                extent = ListExtent.WHOLE if kind in observed.whole else ListExtent.MARKED
                live.set_list(transaction, known, kind, found, extent)
                return observed.with_lists([kind], found)
            case ("unlisted", kind):
                live.set_unlisted(transaction, [kind])
                return observed.unlisted({kind: Denied("may not list")})
    raise AssertionError(step)


def compare(graph: QueryGraph, observed: Observed, hinted: set[ObjectKey]) -> None:
    """Compare every answer about the objects that are known. Doubtful objects keep their place, but count as unread."""
    doubtful = set()
    for key in KEYS:
        answer = graph.answer(live.live_object, key)
        if answer.unread:
            doubtful.add(key)
            assert key in hinted or not observed.is_known(key)
        else:
            assert observed.is_known(key)
            assert answer.value == observed.objects.get(key)
    for set_id in SETS:
        members = graph.answer(live.members_of, set_id)
        assert set(members.value or ()) - doubtful == set(observed.members.get(set_id, ()))
        assert set(members.value or ()) & doubtful == {unread.args[0] for unread in members.unread}
        parents = graph.answer(live.parents_of, set_id)
        assert set(parents.value or ()) - doubtful == {
            key for key, named in observed.parents.items() if named == set_id
        }
    if not doubtful:
        for set_id in SETS:
            claims = {claim for named, claim in observed.claimed if named == set_id}
            assert live.used_claims(graph, set_id) == claims
        assert live.reports_status(graph, DEFINED) == (DEFINED in observed.reporting)


@settings(max_examples=200, deadline=None)
@given(steps=STEPS)
def test_the_graph_knows_what_an_observation_knows(steps: list[Step]) -> None:
    graph = QueryGraph(datetime(2026, 1, 1, tzinfo=UTC), elapsed=lambda: 0.0)
    observed = Observed(Discovery({}), whole=WHOLE)
    hinted: set[ObjectKey] = set()
    for step in steps:
        before, observed = observed, apply(graph, observed, step)
        match step:
            case ("objects", found):
                hinted -= set(map(ObjectKey.from_manifest, found))
            case ("absent", keys):
                hinted -= keys
            case ("forget", keys):
                hinted |= keys
            case ("list", kind, found) if kind in WHOLE:
                hinted = {key for key in hinted if key.group_kind != kind}
            case ("list", kind, found):
                hinted -= set(map(ObjectKey.from_manifest, found))
                hinted |= before.objects.keys() - observed.objects.keys()  # they may live without their label
            case ("unlisted", kind):
                hinted |= {key for key in KEYS if key.group_kind == kind} - observed.objects.keys()
        compare(graph, observed, hinted)


MEMBERS = Roots("members", order=99, members=query(lambda _: frozenset(SETS)), result=live.members_of)


@pytest.mark.parametrize("count", [10, 300])
def test_a_status_marks_no_reader_of_the_members(count: int) -> None:
    """A change that leaves the labels as they are costs the labels of one object."""
    graph = QueryGraph(datetime(2026, 1, 1, tzinfo=UTC), elapsed=lambda: 0.0)
    keys = [key_of(DEPLOYMENT, f"n{place:03}") for place in range(count)]
    with graph.transaction() as transaction:
        live.set_objects(transaction, [body(key, SETS[0], "", 1) for key in keys])
    reported: Mapping[str, Any] = {answer.key: answer.value for answer in graph.changed(MEMBERS)}
    assert reported == {SETS[0]: tuple(keys), SETS[1]: ()}
    before = graph.cost.evaluations.copy()
    with graph.transaction() as transaction:
        live.set_objects(transaction, [body(keys[0], SETS[0], "", 2)])
    assert list(graph.changed(MEMBERS)) == []
    assert (graph.cost.evaluations - before).total() == 1


def test_a_new_kind_concerns_its_readers_alone() -> None:
    graph = QueryGraph(datetime(2026, 1, 1, tzinfo=UTC), elapsed=lambda: 0.0)
    served = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, verbs=frozenset({"list"}))
    review = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)
    assert graph.answer(live.is_never_stored, CONFIG_MAP).unread == {live.discovery.at()}
    with graph.transaction() as transaction:
        transaction.set(live.discovery.at(), Discovery({CONFIG_MAP: served}))
    stored = Roots(
        "stored", order=99, members=query(lambda _: frozenset({CONFIG_MAP, DEPLOYMENT})), result=live.is_only_answered
    )
    assert {answer.key: answer.value for answer in graph.changed(stored)} == {CONFIG_MAP: False, DEPLOYMENT: False}
    with graph.transaction() as transaction:
        transaction.set(live.discovery.at(), Discovery({CONFIG_MAP: served, DEPLOYMENT: review}))
    assert {answer.key: answer.value for answer in graph.changed(stored)} == {DEPLOYMENT: True}
