"""Windows and policies that a commit changes: nothing in the cluster is another by that, but when and how everything may become so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitops.plan.field_diff import diff_objects, format_value
from gitops.plan.report import FieldDiff, PlanWarning, WarningKind
from gitops.rollouts.source_rules import StoredRules
from renderer.phrasing import join_names

_MAX_LISTED = 5


def find_rule_changes(base_rules: StoredRules, head_rules: StoredRules) -> Iterator[PlanWarning]:
    """One for each rule in force that was another before; both are accepted rules as they are stored."""
    old, new = _rules_by_name(base_rules), _rules_by_name(head_rules)
    for name in sorted(old.keys() | new.keys()):
        old_value, new_value = old.get(name), new.get(name)
        location = new_value or old_value or {}
        if change_text := _describe_change(old_value, new_value):
            yield PlanWarning(
                WarningKind.RULES, f"{' '.join(name)} {change_text}", name[1], location["file"], location["line"]
            )
    old_value, new_value = (stored.get("calendars") or {} for stored in (base_rules, head_rules))
    for file in sorted(old_value.keys() | new_value.keys()):
        if old_value.get(file) != new_value.get(file):
            yield PlanWarning(WarningKind.RULES, f"calendar {file} changes", file, file, 1)


def _rules_by_name(stored: StoredRules) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {
        (rule["manifest"]["kind"], rule["manifest"]["metadata"]["name"]): rule for rule in stored.get("rules") or ()
    }


def _describe_change(old_rule: Mapping[str, Any] | None, new_rule: Mapping[str, Any] | None) -> str:
    if old_rule is None or new_rule is None:
        return "is new" if old_rule is None else "goes"
    diffs = diff_objects(old_rule["manifest"], new_rule["manifest"])
    return f"changes: {join_names(map(_describe_field, diffs), limit=_MAX_LISTED, separator='; ')}" if diffs else ""


def _describe_field(field_diff: FieldDiff) -> str:
    """YAML 1.1 reads the name `n` as false."""
    old, new = ("none" if value is None else format_value(value) for value in (field_diff.old, field_diff.new))
    return f"{field_diff.path} {old} -> {new}".replace("linear.false", "linear.n").replace(
        '"linear":{"false"', '"linear":{"n"'
    )
