"""What a plan of one source knows of others (rulings, *Sets, finalizer, hand-over*; docs/plans.md, *Other sources of the cluster*)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from applier.causes import Reason
from applier.cluster import Object
from applier.plan.deletion_brake import DeletionBrake
from gitops.plan import planner
from gitops.plan.report import PlannedAction, Report
from gitops.plan.snapshot import take_snapshot
from gitops.records.applied_packs import KIND
from gitops.records.source_record import MAX_LISTED_OBJECTS
from gitops.windows.window import LOCAL
from renderer import well_known
from renderer.builtin_kinds import load_builtin_schemas
from renderer.identity import OWN_NAMESPACE, ObjectKey, source_parent
from tests.support.git.commits import told
from tests.support.properties.checked_platform import CheckedPlatform, Files
from tests.support.properties.plans import deny, done, rule, run
from tests.support.properties.repositories import GROUP, config_map, definition, instance, plain

LINK = definition("Link", [config_map("a"), config_map("b", "a")], spec={"text": "string"})
MOVED = {"p.json": plain("p", text="1"), "x.json": instance("Link", "x", text="one")}
LINKED = f"Link.{GROUP}/default/x"
CHANGED = definition("Link", [config_map("a"), config_map("b", "a", includeWhen=["${false}"])], spec={"text": "string"})
WAVES = {
    "bake": "1h",
    "waves": [{"name": "first", "selector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}],
}
APPROVED = {"shape": {"linear": {"n": 1}}, "approvals": [{"after": {"settled": 1}}]}
SELECTED = {"kind": "Deny", "timeZone": "UTC", "selector": {"rgds": ["renamed"]}}
CLOSED = rule(
    "PropagationWindow", {**SELECTED, "schedule": {"once": [{"start": "2026-11-01T00:00", "end": "2026-12-01T00:00"}]}}
)
GLASS = {well_known.BREAK_GLASS_REASON: "INC-7", well_known.BREAK_GLASS_UNTIL: "2026-11-20T15:00:00Z"}
Y = f"0 Link.{GROUP}/default/y"


@pytest.fixture
def platform() -> Iterator[CheckedPlatform]:
    """`one` has everything, `two` an object of its own."""
    with CheckedPlatform() as platform:
        commit(platform, "one", {"link.json": LINK, **MOVED})
        commit(platform, "two", {})
        platform.settle()
        yield platform


def commit(platform: CheckedPlatform, source: str, files: Files, *, approved: bool = True) -> None:
    own = {f"{source}.json": plain(source, text="1")}
    platform.commit({**files, **own}, source=source, approved=approved)


def report_of(platform: CheckedPlatform, source: str) -> Report:
    """Of a plan against the cluster; against a snapshot of it everybody reads the same."""
    found = platform.plan(source)
    snapshot = asyncio.run(take_snapshot(platform.cluster, platform.clock.moment, load_builtin_schemas().version))
    again = asyncio.run(
        planner.plan_against_snapshot(snapshot, platform.sources[source], clock=platform.clock, cluster_name=LOCAL)
    )
    assert (said(again), again.hash) == (said(found), found.hash)
    return found


def ordered(text: str, order: Mapping[str, str]) -> str:
    """The definition with a word to all of its instances."""
    found = json.loads(text)
    found["metadata"]["annotations"] = order
    return json.dumps(found)


def becomes(report: Report) -> dict[ObjectKey, PlannedAction]:
    return {one.key: one.action for one in report.changes if one.key}


def said(report: Report) -> list[tuple[str, str]]:
    return [(line, change.message) for line, change in zip(told(report), report.changes, strict=True)]


@pytest.mark.parametrize("braked", [False, True])
def test_what_another_source_waits_for_is_handed_over(platform: CheckedPlatform, braked: bool) -> None:
    """Nothing of it is deleted, also no member of an instance, so the brake has nothing to hold."""
    commit(platform, "two", MOVED)
    platform.settle()
    commit(platform, "one", {"link.json": LINK}, approved=not braked)
    if braked:
        platform.sources["one"] = replace(platform.sources["one"], brake=DeletionBrake(0, 0))
    report = platform.plan("one")
    assert said(report) == [
        ("update 0 ConfigMap/default/p", "handed over to source two"),
        (f"update 1 {LINKED}", "handed over to source two"),
    ]
    assert not [gate for change in report.changes for gate in change.obstacles]
    assert {str(key): str(action) for key, action in done(run(platform)).items()} == {
        "ConfigMap/default/p": "update",
        LINKED: "update",
    }


def test_so_is_what_an_instance_of_another_source_waits_for(platform: CheckedPlatform) -> None:
    """Its object may be there, with all else that it is made of, and the one that it lacks elsewhere."""
    here = {"link.json": LINK, "x-a.json": plain("x-a", text="1")}
    commit(platform, "one", here)
    platform.settle()
    commit(platform, "two", {"x.json": instance("Link", "x", text="one")})
    platform.settle()
    commit(platform, "one", {"link.json": LINK})
    report = platform.plan("one")
    assert said(report) == [("update 0 ConfigMap/default/x-a", "handed over to source two")]
    assert done(run(platform))[ObjectKey("", "ConfigMap", "default", "x-a")] is PlannedAction.UPDATE


def test_what_an_instance_of_another_source_only_refers_to_is_deleted(platform: CheckedPlatform) -> None:
    """It wants to read it, not to have it."""
    ready = {"id": "ext", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "found"}}}
    reader = definition("Reader", [{**ready, "readyWhen": ["${ext.data.text == 'two'}"]}, config_map("a", "ext")])
    commit(platform, "one", {"link.json": LINK, "found.json": plain("found", text="one")})
    platform.settle()
    commit(platform, "two", {"reader.json": reader, "r.json": instance("Reader", "r", text="one")})
    platform.settle()
    commit(platform, "one", {"link.json": LINK})
    assert (
        becomes(platform.plan("one"))
        == done(run(platform))
        == {ObjectKey("", "ConfigMap", "default", "found"): PlannedAction.DELETE}
    )


def test_what_nobody_waits_for_is_deleted(platform: CheckedPlatform) -> None:
    """Whoever wants it later makes it anew: in this order the plan says so, and the run does so."""
    commit(platform, "one", {"link.json": LINK})
    assert platform.plan("one").summary["delete"] == 4
    commit(platform, "two", MOVED)
    assert platform.plan("one").summary["delete"] == 4  # no pass has found that it is wanted


def test_what_another_source_has_is_refused_by_its_name(platform: CheckedPlatform) -> None:
    """What is to be done is a commit there, not a label taken off by hand."""
    commit(platform, "two", {"p.json": MOVED["p.json"]})
    ((line, why),) = said(platform.plan("two"))
    assert line == "failed 0 ConfigMap/default/p"
    assert "belongs to source one; remove the object from that source" in why
    assert "label" not in why


@pytest.mark.parametrize("there", [True, False], ids=["applied", "new"])
def test_an_instance_is_rendered_by_the_definition_of_another_source(platform: CheckedPlatform, there: bool) -> None:
    if there:
        commit(platform, "two", {"y.json": instance("Link", "y", text="one")})
        platform.settle()
    commit(platform, "two", {"y.json": instance("Link", "y", text="two")})
    report = report_of(platform, "two")
    assert {one.file for one in report.changes} == {"y.json"}  # where somebody can change it
    verb = "update" if there else "create"
    assert told(report) == [f"{verb} {Y}", f"{verb} 0 ConfigMap/default/y-a", f"{verb} 1 ConfigMap/default/y-b"]
    assert becomes(report) == done(run(platform))


def test_an_instance_goes_with_all_that_it_is_made_of(platform: CheckedPlatform) -> None:
    commit(platform, "two", {"y.json": instance("Link", "y", text="one")})
    platform.settle()
    commit(platform, "two", {})
    report = report_of(platform, "two")
    assert report.summary["delete"] == 3
    assert becomes(report) == done(run(platform))


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"policy.json": rule("PropagationPolicy", WAVES)}, Reason.WAVE_NOT_REACHED),
        ({"policy.json": rule("PropagationPolicy", APPROVED)}, Reason.APPROVAL_REQUIRED),
        ({"link.json": ordered(CHANGED, {well_known.HALT: "INC-7"})}, Reason.HALTED),
    ],
    ids=["waves", "approval", "halt"],
)
def test_it_waits_for_what_its_definition_s_source_says(
    platform: CheckedPlatform, files: Files, reason: Reason
) -> None:
    """Rules that were accepted, what the rollout remembers, and instances of other sources."""
    y = json.loads(instance("Link", "y", text="one"))
    y["metadata"]["labels"] = {"team": "two"}
    commit(platform, "two", {"y.json": json.dumps(y)})
    platform.settle()
    commit(platform, "one", {**MOVED, "link.json": CHANGED, **files})
    run(platform)
    y["metadata"]["annotations"] = {"team": "two"}
    commit(platform, "two", {"y.json": json.dumps(y)})
    report = report_of(platform, "two")
    (change,) = (one for one in report.changes if str(one.key) == "ConfigMap/default/y-b")
    assert [gate.reason for gate in change.obstacles] == [reason]
    assert {str(one.instance) for one in report.changes} == {f"Link.{GROUP}/default/y"}  # of others nothing is told
    assert {str(key) for key in done(run(platform))} == {f"Link.{GROUP}/default/y"}


def test_a_suspension_that_another_repository_says_of_its_definition_holds_it(platform: CheckedPlatform) -> None:
    """It keeps its own CRD from being written, so that only the record of its source tells of it."""
    word = {well_known.SUSPEND: "INC-7", well_known.SUSPEND_UNTIL: "2026-11-20T14:00:00Z"}
    commit(platform, "one", {**MOVED, "link.json": ordered(LINK, word)})
    run(platform)
    commit(platform, "two", {"y.json": instance("Link", "y", text="one")})
    report = report_of(platform, "two")
    gates = {gate for one in report.changes if one.instance for gate in one.obstacles}
    (gate,) = {(one.reason, one.message, one.until) for one in gates}
    ends = datetime(2026, 11, 20, 14, tzinfo=UTC)
    assert gate == (Reason.SUSPENDED, "definition links.g.test is suspended until 2026-11-20T14:00Z: INC-7", ends)
    run(platform)
    assert not [key for key in platform.cluster.objects if key.name.startswith("y-")]
    platform.clock.moment = ends
    assert not [gate for one in report_of(platform, "two").changes for gate in one.obstacles]


@pytest.mark.parametrize("nested", [False, True], ids=["plain", "nested"])
def test_a_definition_is_planned_with_the_instances_of_other_sources(platform: CheckedPlatform, nested: bool) -> None:
    """They count, and those here wait for them; what becomes of them is not told."""
    y = json.loads(instance("Link", "y", text="one"))
    y["metadata"]["labels"] = {"team": "two"}
    outer = definition("Outer", [{"id": "inner", "template": y}])
    files = {"outer.json": outer, "o.json": instance("Outer", "o")} if nested else {"y.json": json.dumps(y)}
    commit(platform, "two", files)
    platform.settle()
    waves = {"bake": "1h", "waves": [{"name": "first", "selector": {"matchLabels": {"team": "two"}}}]}
    commit(platform, "one", {**MOVED, "link.json": CHANGED, "policy.json": rule("PropagationPolicy", waves)})
    report = report_of(platform, "one")
    assert [(move.instances, move.policy) for move in report.moves] == [(2, "propagationpolicy")]
    gates = {str(one.key): [gate.reason for gate in one.obstacles] for one in report.changes if one.instance}
    assert gates == {"ConfigMap/default/x-b": [Reason.WAVE_NOT_REACHED]}
    assert {key.name for key in done(run(platform)) if key.kind == "ConfigMap"} == {"y-b"}


def test_rules_that_govern_all_sources_govern_it_by_its_definition(platform: CheckedPlatform) -> None:
    """Which these are the configuration says."""
    commit(platform, "two", {"y.json": instance("Link", "y", text="one")})
    commit(platform, "three", {"policy.json": rule("PropagationPolicy", APPROVED)})
    for name, files in (
        ("one", {**MOVED, "link.json": CHANGED}),
        ("two", {"y.json": instance("Link", "y", text="two")}),
    ):
        govern(platform)
        run(platform)
        commit(platform, name, files)
    govern(platform)
    (change,) = (one for one in report_of(platform, "two").changes if str(one.key) == "ConfigMap/default/y-b")
    assert [gate.reason for gate in change.obstacles] == [Reason.APPROVAL_REQUIRED]


def govern(platform: CheckedPlatform) -> None:
    for name, state in platform.sources.items():
        platform.sources[name] = replace(state, governors=frozenset({"three"}) - {name})


@pytest.mark.parametrize("glass", [{}, GLASS], ids=["closed", "break-glass"])
def test_its_definition_has_the_name_and_the_orders_that_were_said_last(
    platform: CheckedPlatform, glass: Files
) -> None:
    """Of a new name and of an order no revision is made; the window selects the new name."""
    commit(platform, "two", {"y.json": instance("Link", "y", text="one")})
    platform.settle()
    commit(platform, "one", {**MOVED, "link.json": ordered(LINK, glass).replace(f'"links.{GROUP}"', '"renamed"')})
    run(platform)
    commit(platform, "two", {"y.json": instance("Link", "y", text="two"), "window.json": CLOSED})
    report = report_of(platform, "two")
    gates = {gate.reason for one in report.changes for gate in one.obstacles}
    assert gates == (set() if glass else {Reason.WINDOW_CLOSED})
    assert done(run(platform)) == (becomes(report) if glass else {})


@pytest.mark.parametrize("governs", [False, True])
def test_an_instance_that_goes_is_held_by_windows_that_govern_its_source(
    platform: CheckedPlatform, governs: bool
) -> None:
    """Those of its own source, and of others where these govern all."""
    commit(platform, "one", {"link.json": LINK, "window.json": deny("prune")})
    platform.settle()
    commit(platform, "two", {"x.json": instance("Link", "x", text="one")})
    platform.settle()
    commit(platform, "two", {})
    if governs:
        platform.sources["two"] = replace(platform.sources["two"], governors=frozenset({"one"}))
    gone = {ObjectKey("", "ConfigMap", "default", f"x-{node}") for node in "ab"}
    held = {one.key for one in report_of(platform, "two").changes if one.obstacles}
    assert held & gone == (gone if governs else set())
    assert gone.isdisjoint(done(run(platform))) is governs


def test_a_kind_that_another_source_defines_is_not_defined_here_too(platform: CheckedPlatform) -> None:
    """As in the run: the definition is ignored, and its instances are of the other one."""
    commit(platform, "two", {"link.json": CHANGED, "y.json": instance("Link", "y", text="one")})
    report = report_of(platform, "two")
    (problem,) = report.problems
    assert problem.message == f"source one owns the definition of Link.{GROUP}; this one is ignored"
    assert becomes(report) == done(run(platform))


def test_an_instance_of_which_no_revision_is_recorded_is_not_knowable(platform: CheckedPlatform) -> None:
    """Neither a failure nor a deletion."""
    commit(platform, "two", {"y.json": instance("Link", "y", text="one")})
    platform.settle()
    platform.cluster.take_away(ObjectKey(*KIND, OWN_NAMESPACE, f"link.{GROUP}-r1"))
    commit(platform, "two", {"y.json": instance("Link", "y", text="two")})
    report = report_of(platform, "two")
    ((line, why),) = said(report)
    assert line.startswith("unknown ")
    assert why == (
        "the definition of the kind is in source one, and the cluster has no readable revision of it; "
        "run levelgate explain source/one"
    )
    assert report.problems == ()


def test_a_record_without_room_for_all_that_is_wanted_is_warned_of(platform: CheckedPlatform) -> None:
    commit(platform, "one", {"link.json": LINK})
    assert "NotCompared" not in [one.hazard for one in platform.plan("one").warnings]

    def full(record: Object) -> None:
        record["data"]["claims"] = "\n".join(
            f"ConfigMap/default/wanted-{number}" for number in range(MAX_LISTED_OBJECTS)
        )

    platform.cluster.edit(source_parent("two"), full)
    (warning,) = (one for one in platform.plan("one").warnings if one.hazard == "NotCompared")
    assert warning.message.startswith("source two may want objects that are shown as deleted here")
    commit(platform, "one", {"link.json": LINK, **MOVED})
    assert platform.plan("one").warnings == ()


@pytest.mark.parametrize(
    ("left", "name"),
    [
        ({"link.json": LINK, "x.json": MOVED["x.json"]}, "p"),
        ({"link.json": LINK, "p.json": MOVED["p.json"]}, "x-a"),
        ({**MOVED, "link.json": CHANGED}, "x-b"),
    ],
    ids=["a plain object", "a member of an instance that goes", "a member that its instance does without"],
)
def test_what_another_source_no_longer_wants_and_may_not_delete_yet_is_taken_over(
    platform: CheckedPlatform, left: Files, name: str
) -> None:
    """Until a pass has found that it leaves, it is refused with the name of that source, as far as that is known."""
    taken = {f"{name}.json": plain(name, text="2")}
    commit(platform, "two", taken)
    (change,) = (one for one in report_of(platform, "two").changes if one.key and one.key.name == name)
    assert (change.action, change.obstacles) == (PlannedAction.FAILED, ())
    commit(platform, "two", {})
    commit(platform, "one", {**left, "window.json": deny("prune")})
    platform.settle()
    commit(platform, "two", taken)
    report = report_of(platform, "two")
    assert [one.action for one in report.changes if one.key and one.key.name == name] == [PlannedAction.UPDATE]
    assert becomes(report) == done(run(platform))


NEVER_READ = rule("PropagationPolicy", {"waves": [{"name": "rest"}]}, name="broken")


@pytest.mark.parametrize(("rules", "is_closed"), [({}, False), ({"broken.json": NEVER_READ}, True)])
def test_a_rule_that_never_could_be_read_closes_those_whom_its_source_governs(rules: Files, *, is_closed: bool) -> None:
    """Broken input opens nothing: what the run holds, the plan of a governed source holds as well, and no more than that."""
    with CheckedPlatform() as platform:
        commit(platform, "one", rules)
        commit(platform, "two", {})
        platform.settle()
        commit(platform, "two", {"p.json": plain("p")})
        platform.sources["two"] = replace(platform.sources["two"], governors=frozenset({"one"}))
        (change,) = platform.plan("two").changes
        told = [(gate.reason, gate.message.partition(",")[0]) for gate in change.obstacles]
        assert told == ([(Reason.GATE_ERROR, "broken (broken.json:1) cannot be read")] if is_closed else [])
        assert {key.name for key in done(run(platform))} == (set() if is_closed else {"p"})
