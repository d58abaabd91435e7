"""Which labels and annotations Git may carry (Sets; docs/reference.md and 3.1)."""

from __future__ import annotations

from typing import Any

import pytest

from renderer.well_known import (
    BREAK_GLASS_REASON,
    BREAK_GLASS_SCOPE,
    BREAK_GLASS_UNTIL,
    CONFLICTS,
    DELETION_POLICY,
    DEPENDS_ON,
    FINALIZER,
    HEALTH,
    HOLD,
    HOLD_UNTIL,
    PART_OF,
    PRIORITY,
    PRUNE,
    RECONCILE,
    REPLACE,
    SUSPEND_UNTIL,
    WAIT_FOR,
    WRITTEN_BY_PEOPLE,
    find_refused_keys,
)


@pytest.mark.parametrize("place", ["labels", "annotations"])
@pytest.mark.parametrize(
    ("key", "told"),
    [
        (PART_OF, "only Levelgate writes keys of"),
        ("applyset.kubernetes.io/id", "only Levelgate writes keys of"),
        ("applyset.kubernetes.io/anything", "only Levelgate writes keys of"),
        ("internal.levelgate.dev/deps", "only Levelgate writes keys of"),
        ("levelgate.dev/commit", "no such key"),
        ("levelgate.dev/prun", "no such key"),
        ("levelgate.dev/sync-requested-at", ""),
        (DEPENDS_ON, ""),
        ("app.kubernetes.io/name", ""),
        ("levelgate.dev.example.org/x", ""),
        ("name", ""),
    ],
)
def test_keys_in_git(place: str, key: str, told: str) -> None:
    """KEP-3659: Git content that carries a `part-of` label is rejected."""
    found = find_refused_keys({"metadata": {place: {key: "x"}}})
    assert [path for path, _ in found] == ([f"metadata.{place}[{key}]"] if told else [])
    assert all(told in message for _, message in found)


WORDS = {
    WAIT_FOR: ("none", "exists", "ready", "healthy"),
    HEALTH: ("ignore",),
    PRUNE: ("disabled", "allowed"),
    RECONCILE: ("disabled",),
    REPLACE: ("allowed",),
    CONFLICTS: ("heal", "report", "force", "Heal", "FORCE"),
    DELETION_POLICY: ("delete", "orphan"),
    PRIORITY: ("-3",),
    BREAK_GLASS_SCOPE: ("windows",),
    **dict.fromkeys((HOLD_UNTIL, SUSPEND_UNTIL, BREAK_GLASS_UNTIL), ("2026-11-23T09:00:00+01:00",)),
}


@pytest.mark.parametrize(
    ("key", "word"), [(key, word) for key in sorted(WRITTEN_BY_PEOPLE) for word in WORDS.get(key, ("x",))]
)
def test_what_people_write_is_taken(key: str, word: str) -> None:
    whole = {BREAK_GLASS_REASON: "INC-7", BREAK_GLASS_UNTIL: "2026-11-23T08:00:00Z"} if "break-glass" in key else {}
    assert (
        find_refused_keys({"kind": "ResourceGraphDefinition", "metadata": {"annotations": {**whole, key: word}}}) == []
    )


@pytest.mark.parametrize(
    ("key", "missing"), [(BREAK_GLASS_REASON, BREAK_GLASS_UNTIL), (BREAK_GLASS_UNTIL, BREAK_GLASS_REASON)]
)
def test_a_break_glass_without_its_other_half_is_refused(key: str, missing: str) -> None:
    """3.3, 14."""
    found = find_refused_keys({"metadata": {"annotations": {key: "2026-11-23T08:00:00Z"}}})
    assert found == [
        (
            f"metadata.annotations[{key}]",
            f"has no effect without {missing}; add the missing annotation, or remove this annotation",
        )
    ]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (REPLACE, "yes", ["must be allowed"]),
        (CONFLICTS, "ignore", ["must be heal or report or force"]),
        (HOLD, " ", ["must give the reason"]),
        (HOLD_UNTIL, "2026-11-23 09:00", ["must be a time with its zone, such as 2026-11-23T08:00:00Z"]),
        (HOLD_UNTIL, "2026-11-23T08:00:00.٥Z", ["must be a time with its zone, such as 2026-11-23T08:00:00Z"]),
        (BREAK_GLASS_SCOPE, "halt", ["must be windows"]),
        (PRIORITY, "high", ["must be a whole number; a higher number goes first"]),
        (PRUNE, "disable", ["must be disabled or allowed"]),
        (RECONCILE, "false", ["must be disabled"]),
        (HEALTH, "ignored", ["must be ignore"]),
        (WAIT_FOR, "Healthy", ["must be none or exists or ready or healthy"]),
        (DELETION_POLICY, "keep", ["must be delete or orphan"]),
    ],
)
def test_a_word_that_would_mean_nothing_is_refused(key: str, value: str, told: list[str]) -> None:
    assert [message for _, message in find_refused_keys({"metadata": {"annotations": {key: value}}})] == told


@pytest.mark.parametrize("metadata", [None, {}, {"labels": None}, {"labels": [PART_OF]}, {"annotations": "text"}])
def test_metadata_of_any_shape_is_looked_at(metadata: Any) -> None:
    assert find_refused_keys({"metadata": metadata}) == []


def test_all_refused_keys_are_told_together() -> None:
    labels = {PART_OF: "a", "levelgate.dev/node": "b"}
    assert (
        len(find_refused_keys({"metadata": {"labels": labels, "annotations": {"internal.levelgate.dev/hash": "c"}}}))
        == 3
    )


def test_the_finalizer_reads_as_the_annotation() -> None:
    assert FINALIZER == PRUNE
