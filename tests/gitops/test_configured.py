"""What the configuration says of sources, in whole passes over several of them (docs/configuration.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from applier.applyset.adoption import Adoption
from applier.causes import Reason
from applier.cluster import CONTENT_MANAGER
from applier.plan.deletion_brake import DeletionBrake
from gitops.daemon.source_records import SourceRecords
from gitops.errors import SourceError
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.sources import SourceState
from renderer.catalog.catalog import load
from tests.support.link_platform import LinkPlatform


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=()) as found:
        yield found


def source(name: str, *maps: str, commit: str = "1" * 40, **said: Any) -> SourceState:
    """A source that holds these ConfigMaps."""
    manifests = {
        one: {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": one, "namespace": "default"}}
        for one in maps
    }
    files = {f"{one}.json": json.dumps(manifest).encode() for one, manifest in manifests.items()}
    return SourceState(load(files, source=name, commit=commit), **said)


def passed(fleet: LinkPlatform, *sources: SourceState) -> ReconcileResult:
    return fleet.call(fleet.reconciler.reconcile(sources))


def live(fleet: LinkPlatform) -> set[str]:
    found = fleet.request("GET", "/api/v1/namespaces/default/configmaps")["items"]
    return {one["metadata"]["name"] for one in found}


def said_of(found: ReconcileResult, name: str) -> tuple[Reason, str]:
    """Why nothing of this source is written."""
    error = next(one.error for one in found.plan.sets if one.rendered.is_source and one.rendered.source == name)
    assert error
    return error.reason, error.message


def test_a_source_waits_until_those_that_it_depends_on_have_been_applied_once(fleet: LinkPlatform) -> None:
    shop = source("shop", "s", depends_on=("platform",))
    alone = passed(fleet, shop)
    assert said_of(alone, "shop") == (
        Reason.DEPENDENCY_NOT_READY,
        "source shop waits until platform has been applied once",
    )
    first = passed(fleet, source("platform", "p"), shop)
    assert said_of(first, "shop")[0] is Reason.DEPENDENCY_NOT_READY
    assert live(fleet) == {"p"}
    passed(fleet, source("platform", "p"), shop)
    assert live(fleet) == {"p", "s"}


def test_a_source_that_could_not_be_read_at_first_waits_all_the_same(fleet: LinkPlatform) -> None:
    """What tells why it cannot be read is no inventory."""
    records = SourceRecords(fleet.cluster, fleet.clock)
    fleet.call(records.report_error("shop", SourceError("https://x/shop", "the server refused access")))
    passed(fleet, source("platform"), source("shop", "s", depends_on=("platform", "other")))
    assert live(fleet) == set()


def test_what_was_applied_before_does_not_wait_again(fleet: LinkPlatform) -> None:
    """A restart at which the other source cannot be read holds nothing up, and removes nothing."""
    passed(fleet, source("shop", "s"))
    passed(fleet, source("shop", "s", "t", depends_on=("platform",)))
    assert live(fleet) == {"s", "t"}


def test_of_a_source_that_the_configuration_suspends_nothing_is_written_not_even_healing(fleet: LinkPlatform) -> None:
    passed(fleet, source("shop", "s"), source("platform", "p"))
    fleet.request("DELETE", "/api/v1/namespaces/default/configmaps/s")
    found = passed(fleet, source("shop", "s", "t", suspend="INC-7"), source("platform", "p", "q"))
    assert live(fleet) == {"p", "q"}
    assert said_of(found, "shop") == (Reason.SUSPENDED, "source shop is suspended by the configuration: INC-7")
    passed(fleet, source("shop", "s", "t"), source("platform", "p", "q"))
    assert live(fleet) == {"p", "q", "s", "t"}


@pytest.mark.parametrize(
    ("brake", "held"),
    [
        (DeletionBrake(), False),
        (DeletionBrake(deletions=2, percent=20), True),
        (DeletionBrake(deletions=3, percent=20), False),
        (DeletionBrake(deletions=2, percent=60), False),
        (DeletionBrake(deletions=0, percent=0), True),
    ],
)
def test_the_brake_of_a_source_holds_what_is_beyond_both_of_its_limits(
    fleet: LinkPlatform, brake: DeletionBrake, held: bool
) -> None:
    """Rule 12: three of five objects go."""
    passed(fleet, source("shop", *"abcde"), source("other", *"vwxyz"))
    found = passed(fleet, source("shop", *"ab", brake=brake), source("other", *"vwxyz"))
    assert live(fleet) == (set("abcdevwxyz") if held else set("abvwxyz"))
    reasons = {orphan.blocked.reason for one in found.plan.sets for orphan in one.prune_candidates if orphan.blocked}
    assert reasons == ({Reason.BRAKE_ENGAGED} if held else set())


def test_an_approval_opens_the_brake_for_the_commit_that_it_names_alone(fleet: LinkPlatform) -> None:
    """Rule 12, threat 24: what is held says how many objects go and which commit has to be named; each deletes three of what is there."""
    strict = DeletionBrake(deletions=0, percent=0)
    named = {name: name * 40 for name in "abc"}

    def held(name: str, *maps: str) -> set[str]:
        found = passed(fleet, source("shop", *maps, commit=named[name], brake=strict))
        return {one.blocked.message for sets in found.plan.sets for one in sets.prune_candidates if one.blocked}

    def approve(commit: str) -> None:
        fleet.approve(commit, source="shop")

    passed(fleet, source("shop", *"stuvwxyz", commit=named["a"]))
    (why,) = held("b", *"stuvw")
    assert "3 of 8 objects would be deleted" in why
    assert f"approve the deletion: levelgate approve source/shop --commit {'b' * 12}" in why
    for said in (named["a"], named["c"], "b" * 6, "b" * 41, "yes"):
        approve(said)
        assert held("b", *"stuvw"), said
        assert live(fleet) == set("stuvwxyz")
    approve(named["b"])
    assert held("b", *"stuvw") == set()
    assert live(fleet) == set("stuvw")
    assert held("c", *"st")
    assert live(fleet) == set("stuvw")


def test_an_approval_lapses_where_a_source_begins_to_delete(fleet: LinkPlatform) -> None:
    """Rule 12: the commit was approved for something else, since none of its deletions were carried out."""
    strict = DeletionBrake(deletions=0, percent=0)
    passed(fleet, source("shop", *"abc"))
    kept = source("shop", "a", commit="b" * 40, brake=strict, prunes=False)
    fleet.approve("b" * 40, source="shop")
    passed(fleet, kept)
    for _ in range(2):  # the annotation goes in the first
        found = passed(fleet, replace(kept, prunes=True))
        held = [orphan.blocked and orphan.blocked.reason for one in found.plan.sets for orphan in one.prune_candidates]
        assert (held, live(fleet)) == ([Reason.BRAKE_ENGAGED] * 2, {"a", "b", "c"})
    fleet.approve("b" * 40, source="shop")
    passed(fleet, replace(kept, prunes=True))
    assert live(fleet) == {"a"}


def test_a_commit_that_holds_nothing_is_approved_by_its_name_as_well(fleet: LinkPlatform) -> None:
    """Rule 12: an emptied repository waits for a person, who may mean it."""
    passed(fleet, source("shop", *"ab", commit="a" * 40))
    empty = source("shop", commit="b" * 40, hold="commit bbbbbbb holds no object at all")
    for said, left in (("a" * 40, {"a", "b"}), ("b" * 12, set())):
        fleet.approve(said, source="shop")
        passed(fleet, empty)
        assert live(fleet) == left


def test_what_helm_made_can_be_changed_once_it_is_adopted(fleet: LinkPlatform) -> None:
    """Helm before version 4 owns all by updates: else the next commit would meet a conflict, and what leaves Git would stay for ever."""
    path = "/api/v1/namespaces/default/configmaps"
    label = {"app.kubernetes.io/managed-by": "Helm"}
    marks = {"labels": label, "annotations": {"meta.helm.sh/release-name": "shop"}}
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **marks}}
    fleet.request("POST", f"{path}?fieldManager=helm", {**theirs, "data": {"x": "1", "y": "1", "unsaid": "1"}})

    def commit(**data: str) -> dict[str, str]:
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
        files = {"a.json": json.dumps({**manifest, "data": data}).encode()}
        catalog = load(files, source="shop", commit="1" * 40)
        passed(fleet, SourceState(catalog, adoption=Adoption.parse("IfEqual:helm")))
        found: dict[str, str] = fleet.request("GET", f"{path}/a")["data"]
        return found

    assert commit(x="1", y="1") == {"x": "1", "y": "1", "unsaid": "1"}
    metadata = fleet.request("GET", f"{path}/a")["metadata"]
    assert {entry["manager"] for entry in metadata["managedFields"]} == {CONTENT_MANAGER}
    assert "Helm" not in metadata["labels"].values()
    assert "meta.helm.sh/release-name" not in metadata["annotations"]
    assert commit(x="2") == {"x": "2", "unsaid": "1"}


def test_a_source_that_does_not_prune_keeps_what_left_git_and_says_so(fleet: LinkPlatform) -> None:
    """Its own objects and those of its instances; once it prunes again they go."""
    definition = {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": "pairs.g.test"},
    }

    def pairs(*ids: str, instances: Sequence[str] = ("p",), **said: Any) -> SourceState:
        template = {"apiVersion": "v1", "kind": "ConfigMap"}
        resources = [
            {"id": one, "template": {**template, "metadata": {"name": f"${{schema.metadata.name}}-{one}"}}}
            for one in ids
        ]
        schema = {"group": "g.test", "apiVersion": "v1", "kind": "Pair", "spec": {}}
        objects: list[dict[str, Any]] = [{**definition, "spec": {"schema": schema, "resources": resources}}]
        objects += [
            {"apiVersion": "g.test/v1", "kind": "Pair", "metadata": {"name": name, "namespace": "default"}}
            for name in instances
        ]
        files = {f"{number}.json": json.dumps(one).encode() for number, one in enumerate(objects)}
        return SourceState(load(files, source="shop", commit="1" * 40), **said)

    both = pairs("a", "b", instances=("p", "q"))
    passed(fleet, both)
    passed(fleet, both)  # the definition's kind is served by now
    assert live(fleet) == {"p-a", "p-b", "q-a", "q-b"}
    kept = pairs("a", prunes=False)
    found = passed(fleet, kept)
    assert live(fleet) == {"p-a", "p-b", "q-a", "q-b"}
    told = [orphan.blocked.message for one in found.plan.sets for orphan in one.prune_candidates if orphan.blocked]
    assert told == ["no longer in Git; source shop deletes nothing (prune: false)"] * 2
    assert passed(fleet, kept).changed == 0
    passed(fleet, replace(kept, prunes=True))
    assert live(fleet) == {"p-a"}
