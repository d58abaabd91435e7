"""Values of Secrets never leave a plan (I10), and that they change is seen."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from applier.state.structural_diff import FieldDiff
from gitops.cli.plan_text import text
from gitops.plan.masking import SNAPSHOT_LABEL, SecretMasks, may_be_equal
from gitops.plan.report import PlannedAction, Report
from gitops.plan.report_ci import as_junit, as_sarif
from gitops.plan.report_json import as_json
from gitops.plan.report_markdown import format_comment
from gitops.text import TimeFormat
from renderer.well_known import LAST_APPLIED
from tests.support.git.commits import Files, planned, planned_beside

CANARY, OTHER = "canary-4711-of-the-plan", "canary-4712-of-the-plan"
SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: db, namespace: default}
stringData: {password: %s, pin: "%s"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: copy, namespace: default}
data: {url: "postgres://app:%s@db", level: "7"}
"""


def forms(value: str) -> list[str]:
    return [value, base64.b64encode(value.encode()).decode()]


@pytest.mark.parametrize("plan", [planned, partial(planned_beside, live={})], ids=["commits", "cluster"])
@pytest.mark.parametrize("base", [{}, {"a.yaml": SECRET % (OTHER, 1, OTHER)}], ids=["new", "changed"])
def test_no_value_is_in_any_form_of_a_plan(base: dict[str, str], plan: Callable[[Files, Files], Report]) -> None:
    report = plan(base, {"a.yaml": SECRET % (CANARY, 2, CANARY)})
    said = [
        repr(as_json(report)),
        format_comment(report),
        "\n".join(text(report, TimeFormat(), full=True)),
        repr(report),
    ]
    assert report.has_changes
    for form in (*forms(CANARY), *forms(OTHER)):
        assert all(form not in one for one in said)


def test_equal_values_have_equal_numbers_and_a_change_is_seen() -> None:
    report = planned({"a.yaml": SECRET % (OTHER, 1, OTHER)}, {"a.yaml": SECRET % (CANARY, 1, CANARY)})
    by_path = {one.path: (one.old, one.new) for change in report.changes for one in change.diff}
    old, new = by_path["data.password"]
    assert old != new
    assert by_path["data.url"] == (f"postgres://app:{old}@db", f"postgres://app:{new}@db")
    assert "data.pin" not in by_path


def test_what_is_named_like_a_secret_and_is_none_is_shown() -> None:
    masks = SecretMasks()
    masks.learn([{"apiVersion": "v1", "kind": "Secret", "data": {"a": base64.b64encode(b"prod").decode()}}])
    assert masks.mask_value({"PASSWORD_FILE": "/run/password", "stage": "production"}) == {
        "PASSWORD_FILE": "/run/password",
        "stage": "production",
    }
    assert masks.mask_value("prod") == "(secret #1)"


def secret(**values: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "stringData": values}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("url: http://p%40ss%2Fw0rd@db", "url: http://(secret #1)@db"),
        ("at p@ss/w0rd-of-prod now", "at (secret #1) now"),
        ("at 8letters now", "at (secret #1) now"),
        ("at OGxldHRlcnM= now", "at (secret #1) now"),
        ("at spaces-around now", "at (secret #1) now"),
        ("at 7letter now", "at 7letter now"),
        ("7letter", "(secret #1)"),
        ("pin4", "(secret #1)"),
        ("pi3", "pi3"),
    ],
)
def test_a_value_is_found_in_each_of_its_forms_and_whole(text: str, told: str) -> None:
    """Of two that begin alike the longer one: nothing of it is left. What is read later is known as well."""
    masks = SecretMasks()
    assert masks.mask_text(text) == text
    values = {"a": "p@ss/w0rd", "b": "p@ss/w0rd-of-prod", "c": "8letters", "d": " spaces-around\n", "e": "7letter"}
    masks.learn([secret(**values, f="pin4", g="pi3")])
    assert masks.mask_value({"list": [text], text: 1}) == {"list": [told], told: 1}


@pytest.mark.parametrize(
    ("old", "new", "may_be"),
    [
        (f"app:({SNAPSHOT_LABEL} #1)@db", "app:(secret #7)@db", True),
        (f"app:({SNAPSHOT_LABEL} #1)@db", "app:(secret #7)@other", False),
        ("app:(secret #1)@db", "app:(secret #7)@db", False),
        (1, f"({SNAPSHOT_LABEL} #1)", False),
    ],
)
def test_values_that_a_snapshot_hides_may_be_equal_and_what_stands_around_them_is_compared(
    old: object, new: object, may_be: bool
) -> None:
    assert may_be_equal(old, new) == may_be


def test_nobody_can_tell_a_value_from_the_numbers() -> None:
    """Numbers say in which order values were met, and nothing else; the hash behind them has a key of its own in each plan."""
    one, other = SecretMasks(), SecretMasks()
    found = secret(b="second-value", a="first-value")
    assert (
        one.mask_object(found)["data"] == other.mask_object(found)["data"] == {"b": "(secret #1)", "a": "(secret #2)"}
    )


def test_of_a_key_that_is_said_twice_the_text_counts() -> None:
    """As the server has it: `stringData` is written over `data`."""
    masks, said = SecretMasks(), secret(a="text")
    number = masks.mask_object(said)["data"]
    assert masks.mask_object({**said, "data": {"a": base64.b64encode(b"data").decode()}})["data"] == number


QUOTING = """\
apiVersion: v1
kind: Service
metadata: {name: refused, namespace: default}
spec: {type: %s, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: %s, namespace: default, annotations: {levelgate.dev/replace: allowed}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: more, namespace: default}
rules: [{apiGroups: [""], resources: [pods], resourceNames: [%s], verbs: [get]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: wrong, namespace: default, annotations: {config.kubernetes.io/depends-on: %s}}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: links.g.test}
spec: {schema: {group: g.test, apiVersion: v1, kind: Link, spec: {size: integer}}, resources: []}
---
apiVersion: g.test/v1
kind: Link
metadata: {name: instance, namespace: default}
spec: {size: %s}
"""


def test_what_quotes_a_value_names_its_number() -> None:
    """A refusal of the server, an instance that cannot be rendered, a problem of a file, a warning, the name of an object."""
    report = planned({}, {"a.yaml": SECRET % (CANARY, 2, CANARY), "b.yaml": QUOTING % ((CANARY,) * 5)})
    said = [
        repr(as_json(report)),
        format_comment(report),
        "\n".join(text(report, TimeFormat(), full=True)),
        repr(report),
    ]
    said += [as_junit(report), repr(as_sarif(report, "1"))]
    assert all(CANARY not in one for one in said)
    failed = [change for change in report.changes if change.action is PlannedAction.FAILED]
    assert {change.kind for change in failed if "(secret #1)" in change.message} == {
        "Service",
        "ConfigMap",
        "Link.g.test",
    }
    assert any("(secret #1)" in problem.message for problem in report.problems)
    assert any("(secret #1)" in warning.message for warning in report.warnings)
    assert any("(secret #1)" in change.ref for change in report.changes)


OLD = """\
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: links.g.test}
spec: {schema: {group: g.test, apiVersion: v1, kind: Link, spec: {%s: string | default=b}}, resources: []}
---
apiVersion: v1
kind: Service
metadata: {name: %s, namespace: default}
spec: {type: %s, ports: [{port: 80}]}
"""


def test_what_is_told_of_what_stays_names_the_number() -> None:
    """An object that is kept for one that cannot be made, and a field that may not go away."""
    canary = CANARY.replace("-", "")
    base, head = (
        {"a.yaml": SECRET % (canary, 2, ""), "b.yaml": OLD % said}
        for said in ((canary, "old", "ClusterIP"), ("c", canary, "No"))
    )
    report = planned(base, head)
    (kept,) = (change for change in report.changes if change.action is PlannedAction.KEEP)
    assert "stays until Levelgate writes Service/default/(secret #1)" in kept.message
    assert "spec.(secret #1): field removed" in report.warnings[0].message
    assert canary not in repr(report)


def test_what_goes_with_its_old_owner_names_the_number() -> None:
    """`kubectl apply` had a field that Git does not say."""
    git = {"a.yaml": SECRET % (CANARY, 2, "")}
    applied = f'annotations: {{{LAST_APPLIED}: \'{{"data": {{"more": ""}}}}\'}}'
    live = (SECRET % (CANARY, 2, "")).partition("---\n")[2].replace("data: {", f"data: {{more: {CANARY}, ")
    report = planned_beside({}, git, {"live.yaml": live.replace("name: copy", f"name: copy, {applied}")})
    (adopted,) = (change for change in report.changes if change.action is PlannedAction.ADOPT)
    assert adopted.diff == (FieldDiff("data.more", "(secret #1)"),)


def test_what_was_applied_last_is_not_shown_of_a_secret() -> None:
    """A short value within a longer text is found nowhere; there all of them stand together."""
    said = {LAST_APPLIED: '{"stringData":{"pin":"7421"}}', "team": "shop"}
    found = {**secret(pin="7421"), "metadata": {"name": "s", "annotations": said}}
    masks = SecretMasks()
    masks.learn([found])
    assert masks.mask_object(found)["metadata"]["annotations"] == {"team": "shop"}


def test_a_value_of_a_secret_that_does_not_change_is_masked_where_it_is_copied_to() -> None:
    """Of two commits only what differs is planned; what is left out holds values all the same."""
    copy = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: default}\ndata: {url: %s}\n"
    base, head = ({"a.yaml": SECRET % (CANARY, 2, OTHER), "b.yaml": copy % said} for said in ("none", CANARY))
    (change,) = planned(base, head).changes
    assert change.diff == (FieldDiff("data.url", "none", "(secret #1)"),)


def test_a_rule_that_quotes_a_value_names_its_number() -> None:
    """Though the Secret itself is the same in both commits."""
    window = (
        "apiVersion: levelgate.dev/v1alpha1\nkind: PropagationWindow\nmetadata: {name: hours}\n"
        'spec: {kind: Allow, timeZone: UTC, schedule: {cron: "0 9 * * 1"}, duration: 2h, byName: true, description: %s}\n'
    )
    base, head = ({"a.yaml": SECRET % (CANARY, 2, CANARY), "w.yaml": window % said} for said in ("quiet", CANARY))
    (warning,) = planned(base, head).warnings
    assert warning.message == "PropagationWindow hours changes: spec.description quiet -> (secret #1)"
