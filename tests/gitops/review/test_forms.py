"""What programs read of a plan: JSON as its schema says, SARIF and JUnit as their readers take them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import jsonschema_rs
import orjson
import pytest

from gitops.review.as_json import as_json
from gitops.review.findings import as_junit, as_sarif
from gitops.review.report import Hazard, Report
from renderer.errors import Problem
from tests.gitops.review.commits import planned
from tests.gitops.review.test_cases import CASES, commits

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "plan.schema.json").read_text())


def report(case: str) -> Report:
    return planned(*commits(CASES / case))


@pytest.mark.parametrize("case", [case.name for case in sorted(CASES.iterdir())])
def test_json_is_as_its_schema_says(case: str) -> None:
    found = orjson.loads(orjson.dumps(as_json(report(case))))
    jsonschema_rs.validator_for(SCHEMA, validate_formats=True).validate(found)
    assert sum(found["summary"].values()) == len(found["changes"]) + found["summary"]["unchanged"]


def test_the_schema_knows_every_hazard() -> None:
    assert SCHEMA["properties"]["warnings"]["items"]["properties"]["hazard"]["enum"] == list(map(str, Hazard))


def test_sarif_names_rule_file_and_line() -> None:
    (run,) = as_sarif(report("privileges-grow"), "1.0")["runs"]
    assert run["tool"]["driver"]["rules"] == [{"id": "PrivilegesGrow"}]
    first = run["results"][0]
    assert (first["ruleId"], first["level"]) == ("PrivilegesGrow", "warning")
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "rbac.yaml"}, "region": {"startLine": 12}}


def test_a_message_in_sarif_holds_no_link() -> None:
    """SARIF 2.1.0, 3.11.6."""
    link = "data[a]: [click](javascript:alert(1)) \\[x]"
    wrong = replace(report("instance-goes"), problems=(Problem("a.yaml", 1, "", link),))
    (run,) = as_sarif(wrong, "1.0")["runs"]
    told = run["results"][0]["message"]["text"]
    assert told == r"data\[a\]: \[click\](javascript:alert(1)) \\\[x\]"


def test_junit_has_a_failure_for_what_cannot_be_done() -> None:
    suite = ElementTree.fromstring(as_junit(report("crd-and-its-objects")))[0]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "spec.size: 300 is above the maximum 10" in (failure.text or "")


def test_junit_passes_where_nothing_is_wrong() -> None:
    suite = ElementTree.fromstring(as_junit(report("instance-goes")))[0]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
