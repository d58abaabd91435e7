"""Findings of a plan as SARIF and JUnit, which forges and CI systems show beside the lines of a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from gitops.plan.report import PlannedAction, Report, WarningKind
from gitops.text import one_line
from renderer.frozen import dataclass

_RULES: Final[Mapping[str, tuple[str, str]]] = {
    "Problem": (
        "A file cannot be read.",
        "Correct the file at the named line; `levelgate lint` shows all mistakes at once.",
    ),
    "Failed": (
        "An object cannot be applied as the commit declares it.",
        "Correct the object; the message gives the reason, and the component that rejects the object.",
    ),
    WarningKind.OPERATOR_FIRST: (
        "The commit deletes an operator before its custom objects, or keeps the custom objects.",
        "Remove the custom objects in an earlier commit: without the operator, their finalizers are not processed.",
    ),
    WarningKind.MASS_DELETION: (
        "The commit deletes more than the brake allows.",
        "If the deletion is intended, approve the commit after the merge: levelgate approve source/NAME --commit SHA.",
    ),
    WarningKind.HISTORY: (
        "The commit does not descend from the commit of the source.",
        "Merge or rebase the commit. If the new history is intended, approve the commit: "
        "levelgate approve source/NAME --commit SHA.",
    ),
    WarningKind.BREAKING_SCHEMA: (
        "A definition would break stored instances.",
        "Keep the fields that the instances use, or change the instances first; to allow the break, set "
        'kro.run/allow-breaking-changes: "true" on the definition.',
    ),
    WarningKind.FOREIGN_OBJECT: (
        "An object has another owner, or is adopted from another owner.",
        "Declare the object in one source only. To permit an adoption, set `adopt` of the source.",
    ),
    WarningKind.NAMESPACE_GOES: (
        "The commit deletes a namespace, with everything in it.",
        "To keep the namespace, set levelgate.dev/prune: disabled on the live object.",
    ),
    WarningKind.PRIVILEGES: (
        "A role allows more than before, or is granted to another subject.",
        "Ask a person responsible for access to review the new permissions in the message.",
    ),
    WarningKind.HOLDS_BACK: (
        "An instance starts, then stops at a gate of a node, while other instances of the rollout wait.",
        "Open the gate first, or let a window or policy hold the whole instance.",
    ),
    WarningKind.RULES: (
        "A window, a policy or an iCalendar file changes.",
        "The objects in the cluster stay as they are. Check the times and the order of their future changes.",
    ),
    WarningKind.SELECTS_NOTHING: (
        "A window, a policy or a wave selects nothing.",
        "The rule holds nothing back. Correct the selector; if the rule is for future objects, ignore this warning.",
    ),
    WarningKind.NOT_COMPARED: (
        "The plan does not compare a part of the commit with live objects.",
        "Read the part and the reason in the message, then plan again with more permissions.",
    ),
    WarningKind.STILL_READ: (
        "The commit deletes an object that a remaining instance reads.",
        "Remove the externalRef from the reader first, or delete both; otherwise the reader waits for the object.",
    ),
}
"""Description of each rule: the meaning of a finding, and the action for the reader."""


@dataclass(frozen=True, slots=True)
class CiFinding:
    """Finding of a plan at a line of a file."""

    rule: str
    """Name of the rule: `Problem`, `Failed` or a `WarningKind`."""

    message: str
    """Message on one line of visible characters. XML forbids some control characters, and some characters reverse the
    direction of the text.
    """

    file: str
    line: int
    is_warning: bool = False

    @property
    def level(self) -> str:
        """Return the severity as a `level` of SARIF."""
        return "warning" if self.is_warning else "error"


def findings(report: Report) -> Iterator[CiFinding]:
    """Yield the problems, the impossible changes and the warnings of a report."""
    for problem in report.problems:
        message = one_line(f"{problem.path}: {problem.message}" if problem.path else problem.message)
        yield CiFinding("Problem", message, problem.file, problem.line)
    for change in report.changes:
        if change.action is PlannedAction.FAILED:
            yield CiFinding("Failed", one_line(f"{change.ref}: {change.message}"), change.file, change.line)
    for warning in report.warnings:
        yield CiFinding(warning.hazard, one_line(warning.message), warning.file, warning.line, is_warning=True)


def as_sarif(report: Report, version: str, *, path: str = "") -> dict[str, Any]:
    """Return SARIF 2.1.0 (OASIS) for GitHub's code scanning.

    The id of the run contains the name of the source. So the results of two sources in one repository do not replace
    each other.

    Args:
        path: path of the source in its repository, because SARIF names files from the root of the repository.
    """
    ci_findings = list(findings(report))
    rules = [_rule(finding) for finding in {finding.rule: finding for finding in ci_findings}.values()]
    driver = {"name": "levelgate", "version": version, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "automationDetails": {"id": f"levelgate/{report.source}/"},
                "results": [_result(finding, path) for finding in ci_findings],
            }
        ],
    }


def _rule(finding: CiFinding) -> dict[str, Any]:
    summary, advice = _RULES[finding.rule]
    return {
        "id": finding.rule,
        "shortDescription": {"text": summary},
        "fullDescription": {"text": summary},
        "help": {"text": advice},
        "defaultConfiguration": {"level": finding.level},
    }


def _result(finding: CiFinding, path: str) -> dict[str, Any]:
    uri = quote(str(PurePosixPath(path, finding.file)))
    location = {"artifactLocation": {"uri": uri}, "region": {"startLine": max(finding.line, 1)}}
    return {
        "ruleId": finding.rule,
        "level": finding.level,
        "message": {"text": _escape_links(finding.message)},
        "locations": [{"physicalLocation": location}],
    }


def _escape_links(message: str) -> str:
    """Escape square brackets, which SARIF reads as a link. Source: SARIF 2.1.0, 3.11.6."""
    return re.sub(r"([\\\[\]])", r"\\\1", message)


def as_junit(report: Report) -> str:
    """Return JUnit XML with a failed test for each problem or impossible change.

    If no test fails, the XML has one passed test. Warnings are the output of the test suite. Names and order of
    elements and attributes obey the schemas of Jenkins (junit-10.xsd) and Apache Ant (JUnit.xsd).
    """
    ci_findings = list(findings(report))
    failures = [finding for finding in ci_findings if not finding.is_warning]
    cases = [_case(finding, name) for finding, name in zip(failures, _case_names(failures), strict=True)] or [
        f"  <testcase classname={quoteattr(report.source)} name='plan' time='0'/>"
    ]
    warnings = "\n".join(
        f"{_location_prefix(finding)}{finding.rule}: {finding.message}" for finding in ci_findings if finding.is_warning
    )
    counts = f'tests="{len(cases)}" failures="{len(failures)}" errors="0" time="0"'
    suite_attributes = (
        f'id="0" package="levelgate" hostname="localhost" timestamp="{report.at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"'
    )
    head = f'<testsuites>\n<testsuite name="levelgate plan" {counts} {suite_attributes}>\n  <properties/>'
    output = f"  <system-out>{escape(warnings)}</system-out>\n  <system-err/>"
    return "\n".join(('<?xml version="1.0" encoding="UTF-8"?>', head, *cases, output, "</testsuite>\n</testsuites>"))


def _case_names(ci_findings: Iterable[CiFinding]) -> Iterator[str]:
    """Yield a name for each finding.

    The names in a file are unique, because GitLab hides all but the first of equal names.
    """
    counts = Counter[tuple[str, str]]()
    for finding in ci_findings:
        name = finding.message[:200]
        counts[finding.file, name] += 1
        count = counts[finding.file, name]
        yield f"{name} ({count})" if count > 1 else name


def _case(finding: CiFinding, name: str) -> str:
    text = escape(_location_prefix(finding) + finding.message)
    failure = f"<failure type={quoteattr(finding.rule)} message={quoteattr(finding.message)}>{text}</failure>"
    attributes = f"classname={quoteattr(finding.file or 'cluster')} name={quoteattr(name)} time='0'"
    return f"  <testcase {attributes}>{failure}</testcase>"


def _location_prefix(finding: CiFinding) -> str:
    return "".join(f"{part}:" for part in (finding.file, finding.line) if part) + " " if finding.file else ""
