"""The report of a preview: equal to that of the plan, with Secrets masked and the compared state named."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

from gitops.plan.comparison_base import ComparisonBase
from gitops.plan.masking import SecretMasks
from gitops.plan.report import Report
from gitops.plan.report_builder import make_report
from gitops.plan.report_json import as_json
from gitops.reconcile.sources import SourceState
from renderer.catalog.catalog import load
from tests.support.git.commits import Files, planned, previewed
from tests.support.properties.repositories import plain

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def report(base: Files, head: Files) -> Report:
    data = {file: text.encode() for file, text in head.items()}
    state = SourceState(load(data, source="platform", commit="a" * 40))
    masks, comparison = SecretMasks(), ComparisonBase()
    return asyncio.run(make_report(previewed(base, head), state, masks, comparison, against="cluster prod", at=AT))


def test_the_report_is_that_of_the_plan() -> None:
    base, head = {"a.json": plain("a"), "b.json": plain("b")}, {"a.json": plain("a", text="two"), "b.json": plain("b")}
    found = report(base, head)
    assert (found.against, found.at, found.unchanged) == ("cluster prod", AT, 1)
    assert found.changes == planned(base, head).changes
    assert found.hash == planned(base, head).hash


def test_values_of_secrets_are_masked_in_all_objects() -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default"},
        "stringData": {"password": "correct-horse"},
    }
    head = {"s.json": json.dumps(secret), "a.json": plain("a", text="user:correct-horse@db")}
    text = json.dumps(as_json(report({}, head)))
    assert "correct-horse" not in text
    assert "(secret #1)" in text
