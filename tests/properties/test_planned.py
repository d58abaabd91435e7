"""What a plan says is what the run does: of each object exactly that, and nothing of what it says is held, fails, or is not there (I2, S0-11).

Commit after commit, over everything that may become of an object: made, changed, replaced, taken over, handed from one set to another, deleted,
released; with windows, gates and a pace that hold some of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applier.applyset.adoption import Adoption
from applier.causes import Reason
from applier.cluster import Object
from applier.plan.deletion_brake import DeletionBrake
from applier.state.observed import is_terminating, label
from gitops.plan.report import PlannedAction, PlannedChange, Report
from gitops.records.rollout_records import Rollouts
from renderer import well_known
from renderer.identity import ObjectKey, applyset_id, source_parent
from tests.support.properties.checked_platform import CheckedPlatform, Files
from tests.support.properties.cluster import ClusterWrite
from tests.support.properties.examples import FUZZ, examples
from tests.support.properties.meddling import MEDDLED, meddle
from tests.support.properties.plans import CLOSED, PACE, Rule, deny, done, holder, rule, run
from tests.support.properties.repositories import GROUP, config_map, definition, instance, plain, repositories

SHARED = "shared"
GOVERNED = (
    {"kinds": ["ConfigMap"]},
    {"nodes": ["a", "held"]},
    {"instances": {"matchLabels": {"name": "x"}}},
    {"rgds": [f"links.{GROUP}"]},
)
POLICIES: tuple[Rule, ...] = (
    {},
    {},
    {"barrier": "Level"},
    {"barrier": "All"},
    {"governs": "All"},
    {"waves": [{"name": "first", "selector": {"matchLabels": {"name": "x"}}}]},
    {"approvals": [{"after": {"settled": 1}}]},
)
BROKEN = "broken.json"
"""A policy that cannot be read."""

SAID: tuple[Mapping[str, str], ...] = (
    {well_known.HOLD: "not yet"},
    {well_known.SUSPEND: "INC-7"},
    {well_known.RECONCILE: "disabled"},
    {well_known.PRUNE: "disabled"},
    {well_known.DELETION_POLICY: "orphan"},
)
"""What people write into a file of what is not to be done with its object."""

OF_INSTANCES = frozenset({well_known.HOLD, well_known.SUSPEND, well_known.DELETION_POLICY})

PLATFORM = {applyset_id(source_parent("platform")), applyset_id(ObjectKey(GROUP, "Holder", "default", "k"))}
"""The sets of the source that has the definitions and rules, and one instance, where the rest is in another."""

_STAYS = frozenset({PlannedAction.FAILED, PlannedAction.KEEP})


@st.composite
def commits(draw: st.DrawFn) -> Files:
    files = dict(draw(repositories(whole=True)))
    texts = st.sampled_from(["one", "two"])
    files["holder.json"] = holder()
    holds = draw(st.sampled_from(["", "p", "h", "k"]))
    for name in draw(st.lists(st.sampled_from(["h", "k"]), unique=True)):
        said = {"text": draw(texts), "open": draw(st.booleans())}
        files[f"{name}.json"] = instance("Holder", name, **said, **({"holds": SHARED} if holds == name else {}))
    if holds == "p":
        files["shared.json"] = plain(SHARED, text=draw(texts))
    fixed = json.loads(plain("fixed", text=draw(texts)))
    if draw(st.booleans()):
        fixed["metadata"]["annotations"] = {well_known.REPLACE: "allowed"}
    files["fixed.json"] = json.dumps({**fixed, "immutable": True})
    if draw(st.booleans()):
        files["found.json"] = plain("found", text=draw(texts))
    if selected := draw(st.one_of(st.none(), st.sampled_from(GOVERNED))):
        schedule = {"timeZone": "UTC", "schedule": {"once": [CLOSED]}}
        verbs = draw(st.sampled_from([{}, {"verbs": ["prune"]}, {"verbs": ["create"]}]))
        files["window.json"] = rule("PropagationWindow", {"kind": "Deny", **schedule, "selector": selected, **verbs})
    if draw(st.booleans()):
        files["policy.json"] = rule("PropagationPolicy", {**PACE, **draw(st.sampled_from(POLICIES))})
    if draw(st.integers(0, 5)) == 0:
        files[BROKEN] = rule("PropagationPolicy", {"waves": [{"name": "rest"}]}, name="broken")
    for name in draw(st.lists(st.sampled_from(["x", "h", "p", "outside"]), unique=True, max_size=2)):
        if f"{name}.json" in files:
            files[f"{name}.json"] = annotated(files[f"{name}.json"], draw(st.sampled_from(SAID)))
    if draw(st.integers(0, 3)) == 0:  # the kind is the same: nothing changes but the name
        files["link.json"] = files["link.json"].replace(f'"links.{GROUP}"', '"renamed"')
    return files


def annotated(text: str, said: Mapping[str, str]) -> str:
    found = json.loads(text)
    is_instance = found["apiVersion"].startswith(GROUP)
    found["metadata"]["annotations"] = {
        **found["metadata"].get("annotations", {}),
        **{name: word for name, word in said.items() if is_instance or name not in OF_INSTANCES},
    }
    return json.dumps(found)


@dataclass(frozen=True)
class Turn:
    """A commit, and what is so when it is planned: how objects may be adopted, a brake that a person has not let go, what somebody did by hand."""

    files: Files
    adopt: str = "Never"
    is_braked: bool = False
    by_hand: tuple[tuple[str, int], ...] = ()


@st.composite
def stories(draw: st.DrawFn) -> list[Turn]:
    adopt = draw(st.sampled_from(["Never", "IfUnowned"]))
    hands = st.tuples(st.sampled_from((*MEDDLED, "apply member")), st.integers(0, 9))
    return [
        Turn(files, adopt, draw(st.integers(0, 3)) == 0, tuple(draw(st.lists(hands, max_size=2))))
        for files in draw(st.lists(commits(), min_size=2, max_size=3))
    ]


@dataclass(frozen=True)
class Said:
    """`now`: what becomes of objects at once; `never`: those that stay as they are; `open`: of which the plan cannot tell, or which go as soon as
    others have settled, as items of a collection do; `late`: sets of instances that wait for their turn, where that may come in the same run; `gone`:
    instances that somebody deleted, which are let go whatever holds that they come again.
    """

    now: dict[ObjectKey, PlannedAction]
    never: set[ObjectKey]
    open: set[ObjectKey]
    late: set[str]
    gone: Set[ObjectKey] = frozenset()

    @classmethod
    def of(cls, report: Report, files: Files, *, goes_back: bool, others_come: bool = False) -> Said:
        """Under a policy of these files nobody has his turn in the same run, but where a revision `goes_back` to what was there before, which bakes
        nothing: then there is what an object is brought to until its turn, and no more.
        But whom that makes unhealthy may move at once where the policy governs all; and where others that nobody knows of come beside them, new ones
        may wait for these.
        """
        policy = files.get("policy.json")
        is_slow = policy is not None and not goes_back
        repairs = policy is not None and json.loads(policy)["spec"].get("governs") == "All"
        known = {one.key: one.parts[0] if is_slow or _is_held(one) else one for one in report.changes if one.key}
        turns = {key for key, one in known.items() if one.obstacles and all(gate.is_turn for gate in one.obstacles)}
        new = {key for key, one in known.items() if key == one.instance and one.action is PlannedAction.CREATE}
        if is_slow:
            items = {
                key for key, one in known.items() if one.obstacles and all(gate.is_of_items for gate in one.obstacles)
            }
            never = {key for key, one in known.items() if one.action in _STAYS or one.obstacles} - items
            unclear = items | {key for key, one in known.items() if one.action is PlannedAction.UNKNOWN}
            unclear |= {key for key, one in known.items() if one.instance in new} - never if others_come else set()
            now = {key: one.action for key, one in known.items() if key not in never | unclear}
            first = {one.instance for one in report.changes if one.instance and one.interim} if repairs else set()
            return cls(now, never, unclear, set(map(applyset_id, first)))
        late = {one.instance for key, one in known.items() if one.instance and (key in turns or one.instance in new)}
        never = {key for key, one in known.items() if one.action in _STAYS or one.obstacles} - turns
        twice = {one.key for one in report.changes if one.key and one.interim and not _is_held(one)}
        unclear = turns | twice | {key for key, one in known.items() if one.action is PlannedAction.UNKNOWN}
        now = {key: one.action for key, one in known.items() if key not in never | unclear}
        return cls(now, never, unclear, {applyset_id(one) for one in late} if report.moves else set())


def _is_held(change: PlannedChange) -> bool:
    """Is something done to it first, and the rest held by more than a turn that may come soon?"""
    return bool(change.interim) and not all(gate.is_turn for gate in change.obstacles)


@examples(12)
@given(stories())
def test_the_run_does_what_the_plan_says_and_nothing_else(story: list[Turn]) -> None:
    smallest(in_one_source, story)


@examples(3)
@given(stories())
def test_so_it_does_where_definitions_and_rules_are_in_another_source(story: list[Turn]) -> None:
    smallest(in_two_sources, story)


def in_one_source(story: Sequence[Turn]) -> None:
    with CheckedPlatform() as platform:
        platform.cluster.put(json.loads(plain("found")))
        for turn in story:
            for what, which in turn.by_hand:
                meddle(platform, what, which)
            platform.commit(turn.files, approved=not turn.is_braked)
            source = replace(platform.sources["platform"], adoption=Adoption.parse(turn.adopt))
            platform.sources["platform"] = replace(source, brake=DeletionBrake(0, 0)) if turn.is_braked else source
            going = {key for key, live in platform.cluster.objects.items() if is_terminating(live)}
            report, writes = platform.plan(), run(platform)
            said = Said.of(report, turn.files, goes_back=goes_back(platform))
            agree(replace(said, gone=going & said.never), writes)


def in_two_sources(story: Sequence[Turn]) -> None:
    """Each waits for instances of the other, in one rollout (*One catalog per cluster*). What both make first is whose comes first;
    what one hands over the other takes when it may.
    """
    with CheckedPlatform() as platform:
        for turn in story:
            there = {
                name: text for name, text in turn.files.items() if name == "k.json" or _is_common(json.loads(text))
            }
            here = {name: text for name, text in turn.files.items() if name not in there}
            for source, files in (("platform", there), ("team", here)):
                platform.commit(files, source=source)
                report, others = platform.plan(source), others_come(platform, source)
                both = run(platform)
                said = Said.of(report, turn.files, goes_back=goes_back(platform), others_come=others)
                writes = [one for one in both if _is_of(source, one)]
                first = {one.key for one in both if one not in writes and one.before is None}
                later = {one.key for one in report.changes if one.message.startswith("handed over")} - done(both).keys()
                agree(replace(said, now={key: it for key, it in said.now.items() if key not in first | later}), writes)


def smallest(play: Callable[[Sequence[Turn]], None], story: Sequence[Turn]) -> None:
    """Play a story; where it fails in a long search, tell the smallest one that does, which is found sooner by what a story is made of than by the
    choices that led to it.
    """
    try:
        play(story)
    except AssertionError as error:
        found, why = _shrunk(play, story, error) if FUZZ else (story, error)
        raise AssertionError("\n".join([*map(str, found), str(why)])) from why


def _shrunk(
    play: Callable[[Sequence[Turn]], None], story: Sequence[Turn], why: AssertionError
) -> tuple[Sequence[Turn], AssertionError]:
    candidates = _less(story)
    while (less := next(candidates, None)) is not None:
        try:
            play(less)
        except AssertionError as error:
            story, why, candidates = less, error, _less(less)
    return story, why


def _less(story: Sequence[Turn]) -> Iterator[Sequence[Turn]]:
    """The same with one thing left out."""
    for place, turn in enumerate(story):
        less = [
            replace(turn, files={name: text for name, text in turn.files.items() if name != gone})
            for gone in turn.files
        ]
        less += [replace(turn, by_hand=tuple(one for one in turn.by_hand if one != gone)) for gone in turn.by_hand]
        less += [replace(turn, is_braked=False)] if turn.is_braked else []
        yield from ((*story[:place], *turns, *story[place + 1 :]) for turns in ((), *((one,) for one in less)))


def goes_back(platform: CheckedPlatform) -> bool:
    """Is there a rollout that is a rollback?"""
    states = Rollouts.from_objects(platform.cluster.objects.values()).states(platform.clock.moment).values()
    return any(target.is_rollback for state in states for target in state.targets.values())


def others_come(platform: CheckedPlatform, source: str) -> bool:
    """Are there instances in Git of other sources that are not in the cluster yet? No plan of this one knows that they wait for a turn too."""
    others = (one.catalog for name, one in platform.sources.items() if name != source)
    wanted = {ObjectKey.from_manifest(one.manifest) for catalog in others for one in catalog.objects}
    return any(key.group == GROUP and key not in platform.cluster.objects for key in wanted)


def _is_of(source: str, write: ClusterWrite) -> bool:
    """Is it the source's, where the other one has the instance `k`? What is handed over is of both."""
    sets = {label(obj, well_known.PART_OF) for obj in (write.before, write.after) if obj} - {""}
    return bool(sets & PLATFORM) if source == "platform" else not sets or bool(sets - PLATFORM)


def _is_common(document: Object) -> bool:
    return document["kind"] in {"ResourceGraphDefinition", "PropagationWindow", "PropagationPolicy"}


def agree(said: Said, writes: list[ClusterWrite]) -> None:
    late = {write.key for write in writes if label(write.after or write.before or {}, well_known.PART_OF) in said.late}
    found = {key: action for key, action in done(writes).items() if key not in late}
    found = {key: action for key, action in found.items() if action is not PlannedAction.DELETE or key not in said.gone}
    wanted = {PlannedAction.ADOPT: PlannedAction.UPDATE}
    now = {key: wanted.get(action, action) for key, action in said.now.items() if key not in late}
    assert {key: action for key, action in found.items() if key not in said.open} == now
    assert not said.never & found.keys()


@pytest.mark.parametrize("is_braked", [False, True])
def test_what_may_not_go_yet_is_healed_at_once_though_what_comes_may_be_the_same_under_another_name(
    is_braked: bool,
) -> None:
    link = definition("Link", [config_map("a")])
    files = {"link.json": link, "y.json": instance("Link", "y", text="one"), "p.json": plain("p", text="one")}
    closed = {} if is_braked else {"window.json": deny("prune")}
    renamed = {"link.json": link, "x.json": instance("Link", "x", text="one"), **closed}
    in_one_source([Turn(files), Turn(renamed, is_braked=is_braked, by_hand=(("edit member", 1),))])


def test_a_member_that_may_not_go_yet_is_healed_at_once() -> None:
    """With what else is brought to its instance: afterwards nobody knows any more what it was."""
    files = {"x.json": instance("Link", "x", text="one"), "window.json": deny("prune")}
    before = {"link.json": definition("Link", [config_map("a"), config_map("b")]), **files}
    after = {"link.json": definition("Link", [config_map("a")]), **files}
    in_one_source([Turn(before), Turn(after, by_hand=(("edit member", 1),))])


def test_an_instance_stays_until_others_have_taken_over_what_they_want_of_it() -> None:
    """It says so, and nothing is tried in vain."""
    taken, files = instance("Holder", "h", holds=SHARED), {"holder.json": holder()}
    before = {**files, "h.json": instance("Holder", "h", holds=""), "k.json": instance("Holder", "k", holds=SHARED)}
    in_one_source([Turn(before), Turn({**files, "h.json": annotated(taken, {well_known.SUSPEND: "INC-7"})})])
    with CheckedPlatform() as platform:
        for turn in before, {**files, "h.json": annotated(taken, {well_known.SUSPEND: "INC-7"})}:
            platform.commit(turn)
            run(platform)
        found = platform.run()
        assert found is not None
        assert found.results == ()
        rows = platform.cluster.objects[ObjectKey(GROUP, "Holder", "default", "k")]["status"]["levelgate"]["blocked"]
        assert [(row["reason"], row["object"]) for row in rows] == [
            ("DeletionBlocked", "Holder.g.test/default/k"),
            ("DependencyNotReady", "ConfigMap/default/shared"),
        ]
        platform.commit({**files, "h.json": taken})
        run(platform)
        assert {key.name for key in platform.cluster.objects if key.kind == "Holder"} == {"h"}


def test_what_somebody_deletes_waits_for_nobody_who_may_have_held_it() -> None:
    files = {"holder.json": holder(), "k.json": instance("Holder", "k")}
    rest = {"holder.json": holder(), BROKEN: rule("PropagationPolicy", {"waves": [{"name": "rest"}]})}
    in_one_source([Turn(files), Turn(rest, by_hand=(("delete instance", 0),))])


@pytest.mark.parametrize("which", [0, 2])
def test_what_lost_its_label_may_still_be_what_leaves_until_it_is_written(which: int) -> None:
    before, after = instance("Holder", "h", holds=SHARED), instance("Holder", "h", text="two", open=False)
    unlabelled = Turn({"holder.json": holder(), "h.json": after}, by_hand=(("unlabel member", which),))
    in_one_source([Turn({"holder.json": holder(), "h.json": before}), unlabelled])


@pytest.mark.parametrize("word", [well_known.HOLD, well_known.SUSPEND])
def test_who_is_held_in_another_source_takes_nobodys_turn(word: str) -> None:
    """Git's word is not written on an instance that it keeps as it is; its status tells it."""
    files = {"holder.json": holder(), "h.json": instance("Holder", "h", open=False)}
    held = {**files, "h.json": annotated(instance("Holder", "h", open=True), {word: "not yet"})}
    pace = rule("PropagationPolicy", {"shape": {"linear": {"n": 1}}, "bake": "1h"})
    in_two_sources([Turn(files), Turn(held), Turn({**held, "k.json": instance("Holder", "k"), "policy.json": pace})])


def test_nothing_is_deleted_to_be_replaced_while_it_may_not_be_created() -> None:
    fixed = json.loads(plain("fixed", text="one")) | {"immutable": True}
    fixed["metadata"]["annotations"] = {well_known.REPLACE: "allowed"}
    with CheckedPlatform() as platform:
        platform.commit({"fixed.json": json.dumps(fixed)})
        run(platform)
        changed = json.dumps(fixed | {"data": {"text": "two"}})
        platform.commit({"fixed.json": changed, "window.json": deny("create")})
        (change,) = platform.plan().changes
        assert (change.action, [gate.reason for gate in change.obstacles]) == (
            PlannedAction.REPLACE,
            [Reason.WINDOW_CLOSED],
        )
        assert done(run(platform)) == {}
        platform.commit({"fixed.json": changed})
        assert done(run(platform)) == {change.key: PlannedAction.REPLACE}
