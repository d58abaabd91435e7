"""Problems, what cannot be done and warnings of a plan, in the forms that forges and CI systems show beside the lines of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from gitops.review.report import Action, Report
from gitops.words.text import one_line
from renderer.values import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """`rule` is `Problem`, `Failed` or the word of a hazard; a warning keeps nothing from going on. The message is one line without letters that are
    not seen: XML has no place for some of them, and others turn round what stands beside them.
    """

    rule: str
    message: str
    file: str
    line: int
    is_warning: bool = False


def findings(report: Report) -> Iterator[Finding]:
    for one in report.problems:
        said = one_line(f"{one.path}: {one.message}" if one.path else one.message)
        yield Finding("Problem", said, one.file, one.line)
    for change in report.changes:
        if change.action is Action.FAILED:
            yield Finding("Failed", one_line(f"{change.ref}: {change.why}"), change.file, change.line)
    for warning in report.warnings:
        yield Finding(warning.hazard, one_line(warning.message), warning.file, warning.line, is_warning=True)


def as_sarif(report: Report, version: str) -> dict[str, Any]:
    """SARIF 2.1.0 (OASIS), as GitHub's code scanning takes it."""
    found = list(findings(report))
    rules = [{"id": rule} for rule in dict.fromkeys(one.rule for one in found)]
    driver = {"name": "levelgate", "version": version, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_result(one) for one in found]}],
    }


def _result(one: Finding) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": quote(one.file) or "."}, "region": {"startLine": max(one.line, 1)}}
    return {
        "ruleId": one.rule,
        "level": "warning" if one.is_warning else "error",
        "message": {"text": _unlinked(one.message)},
        "locations": [{"physicalLocation": place}],
    }


def _unlinked(message: str) -> str:
    """In a message square brackets make a link (SARIF 2.1.0, 3.11.6), unless they are escaped."""
    return re.sub(r"([\\\[\]])", r"\\\1", message)


def as_junit(report: Report) -> str:
    """JUnit's XML: the plan is one test that passes, every problem and all that cannot be done one that fails; warnings are their output.

    All that the schemas of Jenkins (junit-10.xsd) and of Apache Ant (JUnit.xsd) ask for is there, in their order.
    """
    found = list(findings(report))
    failures = [one for one in found if not one.is_warning]
    cases = [_case(one) for one in failures] or [
        f"  <testcase classname={quoteattr(report.source)} name='plan' time='0'/>"
    ]
    warnings = "\n".join(f"{_place(one)}{one.rule}: {one.message}" for one in found if one.is_warning)
    counts = f'tests="{len(cases)}" failures="{len(failures)}" errors="0" time="0"'
    made = f'id="0" package="levelgate" hostname="localhost" timestamp="{report.at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"'
    head = f'<testsuites>\n<testsuite name="levelgate plan" {counts} {made}>\n  <properties/>'
    output = f"  <system-out>{escape(warnings)}</system-out>\n  <system-err/>"
    return "\n".join(('<?xml version="1.0" encoding="UTF-8"?>', head, *cases, output, "</testsuite>\n</testsuites>"))


def _case(one: Finding) -> str:
    failure = f"<failure type={quoteattr(one.rule)} message={quoteattr(one.message)}>{escape(_place(one) + one.message)}</failure>"
    return f"  <testcase classname={quoteattr(one.file or 'cluster')} name={quoteattr(one.message[:200])} time='0'>{failure}</testcase>"


def _place(one: Finding) -> str:
    return "".join(f"{part}:" for part in (one.file, one.line) if part) + " " if one.file else ""
