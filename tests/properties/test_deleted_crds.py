"""Somebody deletes the CRD of a definition in any phase: in the end all is as Git says, and nothing that Git wants was pruned on the way."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from applier.causes import Reason
from renderer.identity import ObjectKey
from renderer.kinds import CRD
from tests.support.properties.checked_platform import CheckedPlatform, Files, essence
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.examples import examples, once
from tests.support.properties.meddling import fresh
from tests.support.properties.repositories import GROUP, UNREADABLE, config_map, definition, faults, instance, plain

LINKS = ObjectKey(*CRD, "", f"links.{GROUP}")
CLOSED = json.dumps(
    {
        "apiVersion": "levelgate.dev/v1alpha1",
        "kind": "PropagationWindow",
        "metadata": {"name": "freeze"},
        "spec": {
            "kind": "Deny",
            "timeZone": "UTC",
            "schedule": {"cron": "0 0 * * *"},
            "duration": "24h",
            "verbs": ["prune"],
        },
    }
)
WHOLE = {
    "link.json": definition("Link", [config_map("a"), config_map("b", "a")]),
    "x.json": instance("Link", "x"),
    "y.json": instance("Link", "y"),
    "p.json": plain("p"),
}
CHANGES: dict[str, Files] = {
    "x leaves": {name: text for name, text in WHOLE.items() if name != "x.json"},
    "both leave": {name: text for name, text in WHOLE.items() if name not in {"x.json", "y.json"}},
    "the definition leaves": {"p.json": plain("p")},
    "a file breaks": {**WHOLE, "x.json": UNREADABLE},
    "all comes back": WHOLE,
}
EVENTS = (
    *CHANGES,
    "the CRD is deleted",
    "the CRD is deleted",
    "finalizers are taken off",
    "the window closes",
    "the window opens",
)
ENDS = ("x leaves", "both leave", "all comes back")


def befall(platform: CheckedPlatform, event: str, files: Files, *, is_closed: bool) -> tuple[Files, bool]:
    """What Git says after an event, and whether its window is closed."""
    if event == "the CRD is deleted":
        platform.cluster.take_away(LINKS)
    elif event == "finalizers are taken off":
        for key, obj in platform.cluster.objects.items():
            if key.group == GROUP and obj["metadata"].get("finalizers") and "deletionTimestamp" in obj["metadata"]:
                platform.cluster.edit(key, lambda one: one["metadata"].update(finalizers=[]))
    else:
        is_closed = {"the window closes": True, "the window opens": False}.get(event, is_closed)
        files = CHANGES.get(event, files)
        platform.commit({**files, **({"freeze.json": CLOSED} if is_closed else {})})
    return files, is_closed


@examples(12)
@given(
    st.lists(st.tuples(st.sampled_from(EVENTS), faults()), min_size=2, max_size=6), st.sampled_from(ENDS), st.booleans()
)
@once
def test_whenever_a_crd_is_deleted_all_comes_to_what_git_wants(
    story: list[tuple[str, dict[int, str]]], end: str, instant: bool
) -> None:
    """I1, I4, I7: passes die on the way; in the end the window is open and a person has approved."""
    with CheckedPlatform(WitnessedCluster(instant=instant), parents_may_vanish=True) as platform:
        files, is_closed = befall(platform, "all comes back", WHOLE, is_closed=False)
        platform.settle()
        for event, befalls in story:
            files, is_closed = befall(platform, event, files, is_closed=is_closed)
            platform.run(befalls)
            platform.cluster.tick()
        last = CHANGES[end]
        platform.commit(last)
        platform.wanted = fresh(last)
        platform.settle()
        assert platform.broken == []
        assert essence(platform.cluster) == fresh(last)


def test_a_held_prune_outlives_the_deletion_of_its_crd_and_is_told() -> None:
    """Nothing is pruned while the window is closed; CRD and instance have a cause, also where another instance waits for the CRD."""
    with CheckedPlatform() as platform:
        platform.commit(WHOLE)
        platform.settle()
        platform.commit({**CHANGES["x leaves"], "freeze.json": CLOSED})
        platform.settle()
        platform.cluster.take_away(LINKS)
        found = platform.settle()
        assert platform.members() == {"p", "x-a", "x-b", "y-a", "y-b"}
        assert platform.deleted() == []
        told = {
            cause.object_key: cause
            for summary in found.ledger.restless()
            for cause in summary.rows
            if cause.reason is Reason.DELETION_BLOCKED
        }
        assert told.keys() == {LINKS, ObjectKey(GROUP, "Link", "default", "x")}
        assert all("window freeze" in cause.message for cause in told.values())
        platform.commit(CHANGES["x leaves"])
        platform.settle()
        assert platform.deleted() == ["x-b", "x-a"]
        assert essence(platform.cluster) == fresh(CHANGES["x leaves"])


def test_children_of_a_lost_instance_stay_while_a_file_cannot_be_read() -> None:
    """Rule 8: what cannot be read may want it."""
    with CheckedPlatform(parents_may_vanish=True) as platform:
        platform.commit(WHOLE)
        platform.settle()
        platform.cluster.take_away(LINKS)
        for key in [key for key in platform.cluster.objects if key.group == GROUP]:
            platform.cluster.edit(key, lambda one: one["metadata"].update(finalizers=[]))
        platform.cluster.tick()
        platform.commit({**CHANGES["both leave"], "p.json": UNREADABLE})
        platform.settle()
        assert platform.members() == {"p", "x-a", "x-b", "y-a", "y-b"}
        platform.commit(CHANGES["both leave"])
        platform.settle()
        assert platform.members() == {"p"}
        assert platform.broken == []
