"""Names of objects for people."""

from __future__ import annotations

from gitops.text import parent_title, title, truncate
from renderer.identity import ObjectKey, source_parent


def test_a_title_names_kind_namespace_and_name() -> None:
    assert title(ObjectKey("x.dev", "WebApp", "prod", "shop")) == "WebApp prod/shop"
    assert title(ObjectKey("x.dev", "Fleet", "", "main")) == "Fleet main"


def test_a_source_is_called_by_its_name() -> None:
    assert parent_title(source_parent("platform")) == "platform"
    assert parent_title(ObjectKey("x.dev", "WebApp", "prod", "shop")) == "WebApp prod/shop"


def test_what_does_not_fit_is_replaced_by_an_ellipsis() -> None:
    assert [truncate(text, 4) for text in ("", "four", "fives")] == ["", "four", "fiv…"]
