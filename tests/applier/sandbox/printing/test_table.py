"""What people read: ages and columns."""

from __future__ import annotations

from typing import Any

import pytest

from applier.sandbox.jsonpath import find_values
from applier.sandbox.printing.cells import format_duration, selector_cell

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 5, "2m5s"),
        (10 * MINUTE + 5, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 59 * MINUTE, "7h59m"),
        (8 * HOUR + 59 * MINUTE, "8h"),
        (47 * HOUR, "47h"),
        (48 * HOUR, "2d"),
        (7 * DAY + 23 * HOUR, "7d23h"),
        (8 * DAY + 23 * HOUR, "8d"),
        (2 * YEAR - DAY, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + 3 * DAY, "2y3d"),
        (8 * YEAR + 3 * DAY, "8y"),
    ],
)
def test_ages(seconds: float, text: str) -> None:
    """apimachinery `pkg/util/duration`, its own table."""
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({}, "<none>"),
        ({"matchLabels": {"b": "x", "a": ""}}, "a=,b=x"),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["y", "x"]}]}, "a notin (x,y)"),
        ({"matchExpressions": [{"key": "a", "operator": "Near"}]}, "<error>"),
    ],
)
def test_selectors(selector: dict[str, Any], text: str) -> None:
    """apimachinery `pkg/apis/meta/v1`, FormatLabelSelector."""
    assert selector_cell("spec.selector")({"spec": {"selector": selector}}, 0) == text


DOCUMENT = {
    "spec": {"ports": [{"port": 80, "name": "web"}, {"port": 443}], "a.b/c": "dotted", "on": True},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.ports[0].port", [80]),
        (".spec.ports[-1].port", [443]),
        (".spec.ports[*].port", [80, 443]),
        (".spec.ports[9].port", []),
        (".spec['a.b/c']", ["dotted"]),
        (r".spec.a\.b/c", ["dotted"]),
        ("{.spec.on}", [True]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type!='Ready')].status", ["False"]),
        (".spec.ports[?(@.port==443)].port", [443]),
        (".spec.absent.more", []),
        (".spec[", []),
        ("", [DOCUMENT]),
    ],
)
def test_paths(path: str, found: list[Any]) -> None:
    assert find_values(path, DOCUMENT) == found
