"""Requests of people as annotations of one object."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gitops.records import requests
from gitops.records.references import Ref
from gitops.records.requests import RequestError, RequestSubject
from renderer.identity import ObjectKey, source_parent

NOW = datetime(2026, 11, 20, 13, 0, tzinfo=UTC)
SHOP = ObjectKey("kro.run", "WebApp", "prod", "shop")


def subject(annotations: dict[str, str] | None = None, *, ref: str = "webapp/shop", **data: str) -> RequestSubject:
    key = source_parent("platform") if ref.startswith("source/") else SHOP
    live: dict[str, Any] = {
        "kind": key.kind,
        "metadata": {"name": key.name, "uid": "u-1", "annotations": annotations or {}},
        "data": data,
    }
    return RequestSubject(key, live, Ref.parse([ref]), "ada", NOW, is_instance=key == SHOP)


def test_a_hold_is_written_with_its_author_and_only_to_the_object_that_was_read() -> None:
    request = requests.hold(subject(), "INC-7", NOW + timedelta(hours=1))
    metadata = request.patch["metadata"]
    assert metadata["uid"] == "u-1"
    assert metadata["annotations"] == {
        "levelgate.dev/hold": "INC-7",
        "levelgate.dev/hold-until": "2026-11-20T14:00:00Z",
        "levelgate.dev/requested-by": "ada",
    }
    assert request.undo == "levelgate release webapp/shop -n prod"


def test_a_release_removes_the_hold_and_its_author() -> None:
    request = requests.release(subject({"levelgate.dev/hold": "INC-7"}))
    assert set(request.patch["metadata"]["annotations"].values()) == {None}
    with pytest.raises(RequestError, match="is not held"):
        requests.release(subject())


def test_a_break_glass_lasts_at_most_four_hours() -> None:
    assert requests.break_glass(subject(), "INC-7", NOW + timedelta(hours=4)).annotations
    with pytest.raises(RequestError, match="lasts at most 4h"):
        requests.break_glass(subject(), "INC-7", NOW + timedelta(hours=5))


def test_a_commit_is_approved_only_where_the_source_is_at_it_or_is_offered_it() -> None:
    source = subject(ref="source/platform", target="a" * 40, offered="b" * 40)
    assert requests.approve_commit(source, "b" * 7, "CHG-9").annotations == {
        "levelgate.dev/approved-commit": "b" * 40,
        "levelgate.dev/approve-reason": "CHG-9",
    }
    with pytest.raises(RequestError, match=f"approve commit {'b' * 40} of source platform"):
        requests.approve_commit(source, "c" * 7, "")
    with pytest.raises(RequestError, match=f"approve commit {'b' * 40} of source platform"):
        requests.approve_commit(source, "b" * 6, "")


def test_a_pin_names_a_commit() -> None:
    source = subject(ref="source/platform")
    assert requests.pin(source, "4e01b7a", "INC-7", None).annotations["levelgate.dev/pin"] == "4e01b7a"
    with pytest.raises(RequestError, match="is not a commit"):
        requests.pin(source, "main", "INC-7", None)
