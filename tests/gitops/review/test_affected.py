"""A plan of what a commit can change says the same as a plan of everything."""

from __future__ import annotations

import pytest

from gitops.review import planning
from gitops.review.as_json import as_json
from tests.gitops.review.commits import Files, changed, planned, sample
from tests.gitops.review.test_cases import CASES, files

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
    monkeypatch.setattr(planning, "affected", lambda *_: None)
    assert as_json(some) == as_json(planned(base, head))
