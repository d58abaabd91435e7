"""What programs read of a plan: JSON as its schema says, SARIF and JUnit as their readers take them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema_rs
import orjson
import pytest

from applier.causes import Reason
from applier.state.structural_diff import FieldDiff
from gitops.cli.plan_text import text
from gitops.plan.report import Obstacle, PlanWarning, Report, WarningKind
from gitops.plan.report_ci import as_junit, as_sarif
from gitops.plan.report_json import as_json
from gitops.plan.report_markdown import format_comment
from gitops.text import TimeFormat
from renderer.errors import Problem
from tests.support.git.commits import planned
from tests.support.plan_cases import CASES, commits


def closed(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def many(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


TEXT = {"type": "string"}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
URI = {"type": "string", "format": "uri-reference"}
PLACE = closed(
    "artifactLocation",
    artifactLocation=closed("uri", uri=URI),
    region=closed("startLine", startLine={"type": "integer", "minimum": 1}),
)
RESULT = closed(
    *("ruleId", "message"),
    ruleId=TEXT,
    level=LEVEL,
    message=closed("text", text=TEXT),
    locations=many(closed(physicalLocation=PLACE)),
)
SAID = closed("text", text=TEXT | {"minLength": 1, "maxLength": 1024})
RULE = closed(
    *("id", "shortDescription", "fullDescription", "help"),
    id=TEXT,
    shortDescription=SAID,
    fullDescription=SAID,
    help=SAID,
    defaultConfiguration=closed("level", level=LEVEL),
)
DRIVER = closed("name", name=TEXT, version=TEXT, rules=many(RULE) | {"uniqueItems": True})
SARIF = closed(
    *("version", "runs"),
    **{"$schema": {"type": "string", "format": "uri"}, "version": {"const": "2.1.0"}},
    runs=many(
        closed(
            "tool",
            tool=closed("driver", driver=DRIVER),
            automationDetails=closed("id", id=TEXT),
            results=many(RESULT),
        )
    ),
)
"""Of the schema of SARIF 2.1.0 (OASIS, sarif-schema-2.1.0.json) what a plan makes use of; nothing else may be there. What GitHub's code scanning
asks for beside (*SARIF support for code scanning*: texts of rules) is required.
"""

SUITE = ["name", "tests", "failures", "errors", "time", "id", "package", "hostname", "timestamp"]
"""What JUnit.xsd of Apache Ant requires of a suite among others; junit-10.xsd of Jenkins allows it, and requires the first four."""

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "plan.schema.json").read_text())


def report(case: str) -> Report:
    return planned(*commits(CASES / case))


@pytest.mark.parametrize("case", [case.name for case in sorted(CASES.iterdir())])
def test_json_is_as_its_schema_says(case: str) -> None:
    said = report(case)
    found = orjson.loads(orjson.dumps(as_json(said)))
    jsonschema_rs.validator_for(SCHEMA, validate_formats=True).validate(found)
    assert sum(found["summary"].values()) == len(found["changes"]) + found["summary"]["unchanged"]
    told = [(one["action"], one["ref"], one["level"], len(one["diff"]), len(one["gates"])) for one in found["changes"]]
    assert told == [(one.action, one.ref, one.level, len(one.diff), len(one.obstacles)) for one in said.changes]


def test_json_leaves_out_what_is_absent_and_nothing_that_is_empty() -> None:
    """A number that is 0 is another than none; a time, a source that nobody named."""
    opens = datetime(2026, 11, 23, 8, tzinfo=UTC)
    said = report("behind-a-gate")
    gate = Obstacle(Reason.WINDOW_CLOSED, "closed", "hours", opens)
    diff = (FieldDiff("a", 0, False), FieldDiff("b", None, ""), FieldDiff("c", [], None))
    changes = (replace(said.changes[0], obstacles=(gate,), diff=diff),)
    found = as_json(replace(said, changes=changes, knows_deletions=False))
    assert found["changes"][0]["diff"] == [
        {"path": "a", "old": 0, "new": False},
        {"path": "b", "new": ""},
        {"path": "c", "old": []},
    ]
    told = {"reason": "WindowClosed", "name": "hours", "message": "closed", "until": "2026-11-23T08:00:00Z"}
    assert (found["changes"][0]["gates"], found["deletionsKnown"]) == ([told], False)
    jsonschema_rs.validator_for(SCHEMA, validate_formats=True).validate(orjson.loads(orjson.dumps(found)))


def test_the_schema_knows_every_hazard() -> None:
    assert SCHEMA["properties"]["warnings"]["items"]["properties"]["hazard"]["enum"] == list(map(str, WarningKind))


def test_sarif_names_rule_file_and_line() -> None:
    (run,) = as_sarif(report("privileges-grow"), "1.0")["runs"]
    assert [one["id"] for one in run["tool"]["driver"]["rules"]] == ["PrivilegesGrow"]
    first = run["results"][0]
    assert (first["ruleId"], first["level"]) == ("PrivilegesGrow", "warning")
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "rbac.yaml"}, "region": {"startLine": 18}}


def test_sarif_says_of_every_rule_what_it_means() -> None:
    every = tuple(PlanWarning(one, "told") for one in WarningKind)
    said = replace(report("immutable"), warnings=every, problems=(Problem("a.yaml", 1, "", "wrong"),))
    found = orjson.loads(orjson.dumps(as_sarif(said, "1.0")))
    jsonschema_rs.validator_for(SARIF).validate(found)
    levels = {one["id"]: one["defaultConfiguration"]["level"] for one in found["runs"][0]["tool"]["driver"]["rules"]}
    assert levels == {"Problem": "error", "Failed": "error", **dict.fromkeys(map(str, WarningKind), "warning")}


def test_sarif_names_files_from_the_root_of_the_repository() -> None:
    """So GitHub finds them; and one source of it does not take away what another one said."""
    (run,) = as_sarif(report("privileges-grow"), "1.0", path="envs/prod")["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "envs/prod/rbac.yaml"}
    assert run["automationDetails"] == {"id": "levelgate/platform/"}


def test_a_message_in_sarif_holds_no_link() -> None:
    """SARIF 2.1.0, 3.11.6."""
    link = "data[a]: [click](javascript:alert(1)) \\[x]"
    wrong = replace(report("instance-goes"), problems=(Problem("a.yaml", 1, "", link),))
    (run,) = as_sarif(wrong, "1.0")["runs"]
    told = run["results"][0]["message"]["text"]
    assert told == r"data\[a\]: \[click\](javascript:alert(1)) \\\[x\]"


@pytest.mark.parametrize("case", [case.name for case in sorted(CASES.iterdir())])
def test_sarif_and_junit_are_as_their_schemas_say(case: str) -> None:
    """Whatever a file is called: its name is a URI in SARIF, and no letter that XML does not know stands in JUnit."""
    strange = [Problem(file, 0, "x", "a\x00\x1b\ufffe<b>") for file in ("a b/ü#%.yaml", "a:1.yaml", "")]
    hazard = PlanWarning(WarningKind.RULES, "a\x00\x1b\ufffe<b>", "", "a b/\u00fc#%.yaml", 1)
    here = datetime(2026, 11, 20, 1, 5, tzinfo=timezone(timedelta(hours=2)))
    wrong = replace(report(case), at=here, problems=tuple(strange), warnings=(hazard,))
    found = orjson.loads(orjson.dumps(as_sarif(wrong, "1.0")))
    jsonschema_rs.validator_for(SARIF, validate_formats=True).validate(found)
    assert [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in found["runs"][0]["results"]][
        :3
    ] == ["a%20b/%C3%BC%23%25.yaml", "a%3A1.yaml", "."]
    assert found["runs"][0]["results"][0]["message"]["text"].startswith("x: a")
    suite = ElementTree.fromstring(as_junit(wrong))[0]
    assert (suite.findtext("system-out") or "").startswith("a b/\u00fc#%.yaml:1: RulesChange: a")
    assert list(suite.keys()) == SUITE
    assert suite.get("timestamp") == "2026-11-19T23:05:00"
    order = {"properties": 0, "testcase": 1, "system-out": 2, "system-err": 3}
    tags = [one.tag for one in suite]
    assert sorted(tags, key=order.__getitem__) == tags
    assert [tags.count(tag) for tag in order] == [1, int(suite.get("tests", "")), 1, 1]
    assert all(one.keys() == ["classname", "name", "time"] and one.get("name") for one in suite.iter("testcase"))
    assert all(one.get("type") for one in suite.iter("failure"))


def test_junit_names_no_two_cases_of_a_file_alike() -> None:
    """GitLab shows the first alone."""
    wrong = tuple(
        Problem(file, line, "", "has no name") for file, line in (("a.yaml", 1), ("a.yaml", 9), ("b.yaml", 1))
    )
    suite = ElementTree.fromstring(as_junit(replace(report("instance-goes"), problems=wrong)))[0]
    cases = [(one.get("classname"), one.get("name")) for one in suite.iter("testcase")]
    assert cases == [("a.yaml", "has no name"), ("a.yaml", "has no name (2)"), ("b.yaml", "has no name")]


def test_junit_has_a_failure_for_what_cannot_be_done() -> None:
    suite = ElementTree.fromstring(as_junit(report("crd-and-its-objects")))[0]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "spec.size: 300 is above the maximum 10" in (failure.text or "")


@pytest.mark.parametrize("case", ["instance-goes", "privileges-grow"])
def test_junit_passes_where_nothing_is_wrong(case: str) -> None:
    """A warning is no failure."""
    suite = ElementTree.fromstring(as_junit(report(case)))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.find("testcase/failure")) == ("1", "0", None)


def test_a_refusal_is_cut_in_its_middle() -> None:
    """What is wrong stands at the beginning, what to do at the end; a refusal quotes all of an object between them."""
    pods = '{"kind": "Pod", "spec": "' + "x" * 2_000 + '"}'
    found = report("immutable")
    long = tuple(replace(one, message=f"first {pods} last") for one in found.changes)
    for said in (
        format_comment(replace(found, changes=long)),
        "\n".join(text(replace(found, changes=long), TimeFormat(utc=True))),
    ):
        assert "first {" in said
        assert " last" in said
        assert len(said) < 2_000
