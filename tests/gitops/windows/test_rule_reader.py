"""All rules of one kind in a commit, whatever the kind."""

from __future__ import annotations

from gitops.windows.rule_reader import parse_rules
from renderer.catalog.catalog import load
from renderer.catalog.file_content import DeclaredObject
from renderer.errors import Problem, SourceLocation
from tests.support.windows.documents import manifest


def parse(declared: DeclaredObject) -> str | list[Problem]:
    """A rule is its cron line; one without is broken."""
    cron = str((declared.manifest.get("spec") or {}).get("cron", ""))
    return cron or [Problem(declared.origin.file, 1, "spec.cron", "is missing")]


def test_none_of_a_name_counts_and_a_broken_one_is_named() -> None:
    policy = manifest("other", cron="never").replace(b"PropagationWindow", b"PropagationPolicy")
    files = {
        "a.json": manifest("day", cron="early"),
        "b.json": manifest("day", cron="late"),
        "c.json": manifest("night"),
        "d.json": policy,
        "e.json": manifest("noon", cron="twelve"),
    }
    found = parse_rules(load(files).rules, "PropagationWindow", "window", parse)
    assert found.rules == {"noon": "twelve"}
    assert found.broken == {"day": SourceLocation("a.json", 1), "night": SourceLocation("c.json", 1)}
    both = "window 'day' is declared at a.json:1 and b.json:1"
    kept = "keep one of them; until then, the accepted version stays in force"
    assert [str(problem) for problem in found.problems] == [
        f"a.json:1: metadata.name: {both}; {kept}",
        f"b.json:1: metadata.name: {both}; {kept}",
        "c.json:1: spec.cron: is missing",
    ]
