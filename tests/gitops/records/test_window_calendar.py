"""The ConfigMap with the windows in force, written and read."""

from __future__ import annotations

import base64
from typing import Any

from gitops.records.window_calendar import calendar_data, parse_rules, updated_configmap


def rule(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    manifest = {"apiVersion": "levelgate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return {"file": f"rules/{name}.yaml", "line": 3, "manifest": manifest}


HOURS = rule(
    "PropagationWindow",
    "hours",
    {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 9 * * *"}, "duration": "8h"},
)
PACE = rule("PropagationPolicy", "pace", {"selector": {"rgds": ["webapp.kro.run"]}})
DEFAULT = rule("PropagationPolicy", "default", {"windows": {"defaultWhenNoWindow": "Closed"}})


def test_windows_and_the_policy_about_them_are_stored_with_their_place() -> None:
    data = calendar_data({"platform": {"rules": [HOURS, PACE, DEFAULT]}, "empty": {"rules": [PACE]}})
    assert data.keys() == {"platform.yaml"}
    assert "rules/hours.yaml:3" in data["platform.yaml"]
    assert "name: pace" not in data["platform.yaml"]
    (rules,) = parse_rules(data)
    assert (rules.source, list(rules.windows)) == ("platform", ["hours"])
    assert str(rules.windows["hours"].origin) == "rules/hours.yaml:3"
    assert rules.default_policy.name == "default"


def test_calendar_files_are_stored_as_text() -> None:
    text = "BEGIN:VCALENDAR\nEND:VCALENDAR\n"
    stored = {"rules": [HOURS], "calendars": {"rules/freeze.ics": base64.b64encode(text.encode()).decode()}}
    data = calendar_data({"platform": stored})
    assert data.keys() == {"platform.yaml", "platform.calendars.json"}
    assert "BEGIN:VCALENDAR" in data["platform.calendars.json"]


def test_the_configmap_is_written_only_if_it_differs_and_keeps_other_sources() -> None:
    created = updated_configmap({"platform": {"rules": [HOURS]}}, None)
    assert created is not None
    assert updated_configmap({"platform": {"rules": [HOURS]}}, created) is None
    other = updated_configmap({"shop": {"rules": [DEFAULT]}}, created)
    assert other is not None
    assert other["data"].keys() == {"platform.yaml", "shop.yaml"}


def test_a_document_that_is_not_a_rule_is_ignored() -> None:
    (rules,) = parse_rules({"platform.yaml": "kind: ConfigMap\nmetadata: {name: a}\n"})
    assert not rules.windows
