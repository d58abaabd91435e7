"""A plan of what a commit can change says the same as a plan of everything."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.plan import planner
from gitops.plan.affected import restrict_to_affected
from gitops.plan.report_json import as_json
from renderer.catalog.catalog import Catalog
from tests.support.git.commits import Files, changed, planned, sample
from tests.support.plan_cases import CASES, files

SHOP, DOCS, WEB = "apps/prod/shop.yaml", "apps/staging/docs.yaml", "definitions/web-app.yaml"
EDITS: dict[str, tuple[str, str, str]] = {
    "an instance": (DOCS, "docs:", "docs-next:"),
    "a product with instances of its own": (SHOP, "replicas: 3", "replicas: 5"),
    "a definition": (WEB, "maxUnavailable: 1", "maxUnavailable: 2"),
    "a namespace": ("cluster/namespaces.yaml", "name: staging", "name: staging\n  labels: {a: b}"),
    "a rule": ("rules/web-apps.yaml", "{n: 2}", "{n: 1}"),
    "a name that another has": (DOCS, "name: docs", "name: shop"),
}


def pairs() -> dict[str, tuple[Files, Files]]:
    found: dict[str, tuple[Files, Files]] = {name: (sample(), changed(sample(), *edit)) for name, edit in EDITS.items()}
    for case in sorted(CASES.iterdir()):
        base = files(case / "base") if (case / "base").is_dir() else sample()
        found[case.name] = base, {file: text for file, text in {**base, **files(case / "head")}.items() if text}
    return found


@pytest.mark.parametrize("name", list(pairs()))
def test_what_is_left_out_does_not_matter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base, head = pairs()[name]
    some = planned(base, head)
    monkeypatch.setattr(planner, "restrict_to_affected", lambda *_: None)
    assert as_json(some) == as_json(planned(base, head))


def test_siblings_of_what_changes_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instances of one definition use the same CRD, and a plan of each commit would else be as long as the repository."""
    taken: list[tuple[Catalog, Catalog]] = []

    def noted(*asked: Any) -> tuple[Catalog, Catalog] | None:
        taken.extend(filter(None, [found := restrict_to_affected(*asked)]))
        return found

    monkeypatch.setattr(planner, "restrict_to_affected", noted)
    base = {**sample(), "apps/staging/blog.yaml": sample()[DOCS].replace("docs", "blog")}
    planned(base, changed(base, *EDITS["an instance"]))
    for catalog in taken[0]:
        names = {one.manifest["metadata"]["name"] for one in catalog.objects if one.group_kind.kind == "WebApp"}
        assert names == {"docs"}
