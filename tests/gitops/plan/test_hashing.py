"""The hash of a plan covers all that matters and nothing else: whoever agrees to it agrees to that alone (docs/plans.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from applier.causes import Reason
from applier.state.structural_diff import FieldDiff
from gitops.plan.report import (
    HASH_DIGITS,
    Obstacle,
    PlannedAction,
    PlannedChange,
    RevisionMove,
    is_same,
    plan_hash,
)
from renderer.catalog.catalog import Catalog, load
from renderer.errors import Problem
from renderer.identity import ObjectKey

SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: %s}\n"
WINDOW = (
    "apiVersion: levelgate.dev/v1alpha1\nkind: PropagationWindow\nmetadata: {name: hours}\n"
    'spec: {kind: Allow, timeZone: UTC, schedule: {cron: "0 9 * * 1"}, duration: %s, selector: {namespaces: [prod]}}\n'
)
CHANGE = PlannedChange(
    PlannedAction.REPLACE,
    ObjectKey("apps", "Deployment", "prod", "web"),
    "Deployment.apps",
    ObjectKey("kro.run", "WebApp", "prod", "shop"),
    "web",
    1,
    "a.yaml",
    4,
    (FieldDiff("spec.replicas", 1, 2),),
    immutable=("spec.selector",),
)
OTHER = replace(CHANGE, key=ObjectKey("apps", "Deployment", "prod", "job"), node="job")
KEPT = PlannedChange(PlannedAction.UPDATE, ObjectKey("", "Secret", "default", "s"), "Secret", file="s.yaml")
MOVE, PROBLEM = RevisionMove("webapp.kro.run", 1, 2, 10), Problem("b.yaml", 1, "spec.x", "is wrong")


def catalog(value: str = "one", duration: str = "8h", source: str = "platform", *, file: str = "s.yaml") -> Catalog:
    files = {file: SECRET % value, "w.yaml": WINDOW % duration}
    return load({file: text.encode() for file, text in files.items()}, source=source)


def told(
    head: Catalog | None = None,
    *,
    changes: tuple[PlannedChange, ...] = (CHANGE, OTHER, KEPT),
    move: RevisionMove = MOVE,
    problem: Problem = PROBLEM,
) -> str:
    return plan_hash(head or catalog(), changes, [move], [problem])


def changed(**said: object) -> Callable[[], str]:
    return lambda: told(changes=(replace(CHANGE, **said), OTHER, KEPT))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other",
    {
        "what happens": changed(action=PlannedAction.UPDATE),
        "to which object": changed(key=OTHER.key),
        "of which instance": changed(instance=None),
        "at which node": changed(node="b"),
        "at which level": changed(level=2),
        "to what": changed(diff=(FieldDiff("spec.replicas", 1, 3),)),
        "from what": changed(diff=(FieldDiff("spec.replicas", 0, 2),)),
        "why it is replaced": changed(immutable=("spec.template",)),
        "in which order": lambda: told(changes=(OTHER, CHANGE, KEPT)),
        "under which rules": lambda: told(catalog(duration="9h")),
        "to which revision": lambda: told(move=replace(MOVE, new=3)),
        "from which revision": lambda: told(move=replace(MOVE, old=0)),
        "of which definition": lambda: told(move=replace(MOVE, name="blog.kro.run")),
        "what is wrong": lambda: told(problem=replace(PROBLEM, message="is bad")),
        "with which field": lambda: told(problem=replace(PROBLEM, path="spec.y")),
        "of which source": lambda: told(catalog(source="other")),
        "the value of a Secret that changes": lambda: told(catalog("two")),
    }.items(),
    ids=lambda one: one[0],
)
def test_it_is_another_where_something_else_would_be_done(other: tuple[str, Callable[[], str]]) -> None:
    assert other[1]() != told()


@pytest.mark.parametrize(
    "same",
    {
        "times and gates": changed(
            obstacles=(Obstacle(Reason.WINDOW_CLOSED, "shut", "w", datetime(2026, 11, 23, tzinfo=UTC)),)
        ),
        "words": changed(message="drifted"),
        "what comes to nothing": lambda: told(changes=(CHANGE, replace(OTHER, node="x", is_undone=True), OTHER, KEPT)),
        "places in files": changed(file="moved.yaml", line=9),
        "in which file a Secret stands": lambda: told(
            catalog(file="moved.yaml"), changes=(CHANGE, OTHER, replace(KEPT, file="moved.yaml"))
        ),
        "how many instances there are": lambda: told(move=replace(MOVE, instances=11)),
        "where a problem stands": lambda: told(problem=replace(PROBLEM, file="moved.yaml", line=7)),
        "the value of a Secret that does not": lambda: told(catalog("two"), changes=(CHANGE, OTHER)),
    }.items(),
    ids=lambda one: one[0],
)
def test_it_is_the_same_whatever_is_said_of_it(same: tuple[str, Callable[[], str]]) -> None:
    whole = told(changes=(CHANGE, OTHER)) if same[0].startswith("the value") else told()
    assert same[1]() == whole


def test_all_digits_are_asked_for() -> None:
    found = told()
    assert len(found) == HASH_DIGITS
    assert is_same(f" {found.upper()}\n", found)
    assert not is_same(found[:-1], found)
    assert not is_same("", found)
