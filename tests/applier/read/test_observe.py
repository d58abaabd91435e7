"""What is known of a cluster, and with how few requests (`applier.read.observe`, `applier.state.observed`)."""

from __future__ import annotations

import pytest

from applier.applyset.inventory import Scope, parent_body
from applier.cluster import Discovery, Object
from applier.errors import ClusterError, Denied, Invalid, Unavailable
from applier.read.observe import (
    FEW,
    list_missing_kinds,
    observe,
    read_candidates,
    read_objects,
    read_references,
    relist,
)
from applier.state.observed import Observed
from renderer import well_known
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey
from renderer.kinds import CRD
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.waves import PARENT, key, member

CONFIG_MAP = GroupKind("", "ConfigMap")
SOURCE = ObjectKey("", "ConfigMap", "levelgate-system", "source-platform")


class Counting(WitnessedCluster):
    """Remembers what was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        self.asked.append(f"get {key}")
        return await super().get(key, metadata_only=metadata_only)

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> list[Object]:
        self.asked.append(f"list {kind} {namespace or '*'} {selector or '-'}{' metadata' if metadata_only else ''}")
        return await super().list(kind, namespace, selector=selector, metadata_only=metadata_only)


def put(cluster: WitnessedCluster, *objects: Object) -> None:
    for obj in objects:
        cluster.put(obj)


def source(scope: Scope) -> Object:
    return parent_body(SOURCE, "v1", scope, version="0")


async def test_every_kind_that_is_named_is_listed_once_and_members_lead_on() -> None:
    """The source's scope names Secret only; a member of it is a parent that names Service."""
    cluster = Counting()
    nested = parent_body(
        PARENT._replace(group="", kind="Secret"), "v1", Scope(frozenset({GroupKind("", "Service")})), version="0"
    )
    nested["metadata"]["labels"][well_known.PART_OF] = "the-source"
    put(cluster, source(Scope(frozenset({GroupKind("", "Secret")}))), nested, member("a"))
    found = await observe(cluster, [SOURCE], kinds=[CONFIG_MAP])
    assert found.listed == {CONFIG_MAP, GroupKind("", "Secret"), GroupKind("", "Service")}
    assert sorted(cluster.asked) == [
        "get ConfigMap/levelgate-system/source-platform",
        *(f"list {kind} * {well_known.PART_OF}" for kind in ("ConfigMap", "Secret", "Service")),
    ]
    assert found.members[member("a")["metadata"]["labels"][well_known.PART_OF]] == (key("a"),)


async def test_kinds_given_beside_the_parents_are_listed_as_well() -> None:
    """Kinds of records of instances whose object is gone."""
    found = await observe(WitnessedCluster(), [], kinds=[CONFIG_MAP])
    assert found.listed == {CONFIG_MAP}


async def test_a_parent_of_another_tool_names_nothing() -> None:
    cluster = Counting()
    theirs = source(Scope(frozenset({GroupKind("", "Secret")})))
    theirs["metadata"]["annotations"][well_known.TOOLING] = "kubectl/v1"
    put(cluster, theirs)
    assert (await observe(cluster, [SOURCE], kinds=[])).listed == frozenset()


async def test_a_kind_that_is_not_served_is_passed_over() -> None:
    found = await observe(WitnessedCluster(), [], kinds=[GroupKind("nobody.io", "Thing"), CONFIG_MAP])
    assert found.listed == {CONFIG_MAP}


async def test_a_kind_that_came_since_the_process_began_is_listed() -> None:
    """I12: it was not served is no proof that there is nothing of it."""
    cluster = WitnessedCluster()
    await cluster.discover()
    put(cluster, source(Scope(frozenset({GroupKind("g.test", "Thing")}))))
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "things", "kind": "Thing"}
    put(
        cluster,
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.g.test"},
            "spec": {"group": "g.test", "scope": "Namespaced", "names": names, "versions": [version]},
        },
    )
    thing = {**member("thing"), "apiVersion": "g.test/v1", "kind": "Thing"}
    put(cluster, thing)
    found = await observe(cluster, [SOURCE], kinds=[])
    assert ObjectKey.from_manifest(thing) in found.objects


@pytest.mark.parametrize(("count", "requests"), [(FEW, FEW), (FEW + 1, 1)])
async def test_few_objects_are_read_one_by_one_and_many_by_one_list_of_metadata(count: int, requests: int) -> None:
    """Sets: one metadata list per kind and namespace when more than 8 are new."""
    cluster = Counting()
    put(cluster, member("n0"), member("other"))
    found = await read_objects(
        cluster, Observed(await cluster.discover()), [key(f"n{index}") for index in range(count)]
    )
    assert len(cluster.asked) == requests
    assert set(found.objects) == {key("n0")}
    assert found.absent == {key(f"n{index}") for index in range(1, count)}


async def test_our_own_records_are_read_whole_however_many_there_are() -> None:
    """What a source was brought to, and where its members are, stands in the data of its record."""
    cluster = Counting()
    records = [ObjectKey("", "ConfigMap", OWN_NAMESPACE, f"source-{number}") for number in range(FEW + 1)]
    for one in records:
        metadata = {"name": one.name, "namespace": one.namespace}
        put(cluster, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"target": "c0ffee0"}})
    found = await read_objects(cluster, Observed(await cluster.discover()), records)
    assert len(cluster.asked) == 1
    assert [found.objects[one].get("data") for one in records] == [{"target": "c0ffee0"}] * len(records)


async def test_a_list_tells_what_vanished_and_leaves_what_has_no_label_alone() -> None:
    cluster = WitnessedCluster()
    plain = member("plain")
    del plain["metadata"]["labels"]
    before = Observed(await cluster.discover()).with_objects([member("gone"), plain])
    put(cluster, member("new"))
    found = await relist(cluster, before, [CONFIG_MAP])
    assert set(found.objects) == {key("plain"), key("new")}
    assert found.absent == {key("gone")}
    assert not before.listed


async def test_nothing_is_listed_twice() -> None:
    cluster = Counting()
    found = await list_missing_kinds(cluster, Observed(await cluster.discover()), [CONFIG_MAP])
    await list_missing_kinds(cluster, found, [CONFIG_MAP])
    assert len(cluster.asked) == 1


def test_knowledge_is_a_value() -> None:
    """Seen, gone and forgotten each make a new one."""
    nothing = Observed(Discovery({}))
    seen = nothing.with_objects([member("a")])
    gone = seen.without_objects([key("a")])
    again = gone.with_objects([member("a")])
    forgotten = again.forget([key("a")])
    assert [(key("a") in one.objects, key("a") in one.absent) for one in (nothing, seen, gone, again, forgotten)] == [
        (False, False),
        (True, False),
        (False, True),
        (True, False),
        (False, False),
    ]
    assert [one.is_known(key("a")) for one in (nothing, seen, gone, forgotten)] == [False, True, True, False]


def test_failures_are_remembered_by_object() -> None:
    error = Unavailable("no")
    assert Observed(Discovery({})).with_failures({key("a"): error}).failures == {key("a"): error}


class Refusing(Counting):
    """Cannot list objects of a kind, nor read any."""

    def __init__(self, why: ClusterError, kind: GroupKind = CONFIG_MAP) -> None:
        super().__init__()
        self.why, self.kind = why, kind

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        found = await super().get(key, metadata_only=metadata_only)
        if key.group_kind == self.kind:
            raise self.why
        return found

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> list[Object]:
        found = await super().list(kind, namespace, selector=selector, metadata_only=metadata_only)
        if kind == self.kind:
            raise self.why
        return found


REFUSALS = (Unavailable("conversion webhook failed"), Denied("no right to list"), Invalid("no namespace is given"))


@pytest.mark.parametrize("why", REFUSALS, ids=str)
async def test_a_kind_that_cannot_be_read_hides_no_other_and_is_asked_for_once(why: ClusterError) -> None:
    """I9: "cannot read" is never "empty", and what was listed of the kind before proves nothing any more either."""
    cluster, secret = Refusing(why), GroupKind("", "Secret")
    found = await list_missing_kinds(cluster, await observe(cluster, [], kinds=[CONFIG_MAP, secret]), [CONFIG_MAP])
    assert found.listed == {secret}
    assert found.unreadable.keys() == {CONFIG_MAP}
    assert not found.absent
    assert len([one for one in cluster.asked if "ConfigMap" in one]) == 1
    before = Observed(await cluster.discover(), listed=frozenset({CONFIG_MAP, secret}))
    assert (await relist(cluster, before, [CONFIG_MAP])).listed == {secret}


@pytest.mark.parametrize("why", REFUSALS, ids=str)
async def test_only_definitions_of_kinds_stop_the_pass_where_they_cannot_be_read(why: ClusterError) -> None:
    """I9: of other kinds of which everything is to be known nothing is."""
    found = await observe(Refusing(why), [], kinds=(), whole=[CONFIG_MAP])
    assert found.unreadable == {CONFIG_MAP: why}
    assert not found.is_known(key("a"))
    with pytest.raises(type(why)):
        await observe(Refusing(why, CRD), [], kinds=[CRD])


@pytest.mark.parametrize("count", [1, FEW + 1])
@pytest.mark.parametrize("why", REFUSALS, ids=str)
async def test_new_objects_that_cannot_be_read_hide_no_others(why: ClusterError, count: int) -> None:
    """I9: it is not known of any of them whether it is there; of all others it is."""
    cluster, secret = Refusing(why), ObjectKey("", "Secret", "default", "s")
    hidden = {key(f"c{number}") for number in range(count)}
    found = await read_candidates(cluster, Observed(await cluster.discover()), [*hidden, secret])
    assert found.failures == dict.fromkeys(hidden, why)
    assert found.absent == {secret}


@pytest.mark.parametrize("why", REFUSALS, ids=str)
async def test_references_that_cannot_be_read_hide_no_others(why: ClusterError) -> None:
    """I9: of a kind that is namespaced, say, though the commit has another CRD of it."""
    cluster, secret = Refusing(why), ObjectKey("", "Secret", "default", "s")
    found = await read_references(cluster, Observed(await cluster.discover()), [key("a"), secret])
    assert found.failures == {key("a"): why}
    assert found.absent == {secret}


def versioned(name: str, version: str, **more: object) -> Object:
    found = member(name)
    return {**found, **more, "metadata": {**found["metadata"], "resourceVersion": version}}


BARE: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bare", "namespace": "default"}}


def test_what_has_not_changed_is_told_by_its_identity() -> None:
    """Another version, more of the same one, and what has none at all are new."""
    before = {key(name): versioned(name, "1") for name in ("same", "newer", "more")} | {key("bare"): BARE}
    now = [versioned("same", "1"), versioned("newer", "2"), versioned("more", "1", status={}), {**BARE}]
    found = Observed(Discovery({})).with_objects(now).reuse_unchanged(before)
    assert [name for name in ("same", "newer", "more", "bare") if found.objects[key(name)] is before[key(name)]] == [
        "same"
    ]
    assert found.objects[key("more")]["status"] == {}


def test_what_a_changed_crd_shows_is_new_at_the_same_version() -> None:
    """A server leaves out what a schema no longer has, without another version of the object."""
    names = {"group": "example.com", "names": {"kind": "Link"}}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": names}
    link = {
        "apiVersion": "example.com/v1",
        "kind": "Link",
        "metadata": {"name": "l", "uid": "u", "resourceVersion": "5"},
    }

    def shown(version: str) -> Observed:
        described = {**crd, "metadata": {"name": "links.example.com", "uid": "c", "resourceVersion": version}}
        return Observed(Discovery({})).with_objects([described, dict(link), versioned("a", "1")])

    before = shown("1").objects
    here = ObjectKey("example.com", "Link", "", "l")
    assert shown("1").reuse_unchanged(before).objects[here] is before[here]
    changed = shown("2").reuse_unchanged(before).objects
    assert changed[here] is not before[here]
    assert changed[key("a")] is before[key("a")]
