"""The part of a status that is ours comes back as it was written, and has the fields that its schema names."""

from __future__ import annotations

from typing import Any

import pytest

from renderer.definition.crd import KindIdentity, custom_resource_definition
from renderer.identity import GroupKind
from renderer.levelgate_status import LevelgateStatus, RevisionAtCommit

STORED: dict[str, Any] = {
    "source": "platform",
    "target": {"revision": 13, "content": "c13", "commit": "9c1d2e7f0a1b"},
    "applied": {"revision": 12, "content": "c12", "commit": "1a2b3c4d5e6f"},
    "settled": {"revision": 11, "content": "c11", "commit": "0f0e0d0c0b0a"},
    "nodes": {"total": 3, "updated": 2, "healthy": 3, "blocked": 1},
    "blocked": [{"node": "database", "reason": "Held", "message": "swap", "since": "2026-11-20T12:00:00Z"}],
    "asked": {"hold": {"said": "swap", "since": "2026-11-20T12:00:00+00:00"}},
    "rollout": {"name": "webapp.kro.run", "wave": "prod"},
    "progress": {"revision": 13, "flaps": 2, "deadline": "2026-11-20T13:00:00Z"},
    "synced": "now",
    "begun": "2026-11-20T12:30:00+00:00",
}


def test_what_is_stored_comes_back_and_is_stored_alike() -> None:
    status = LevelgateStatus.from_status({"levelgate": STORED})
    assert list(status.to_dict().items()) == list(STORED.items())
    assert LevelgateStatus.from_instance({"status": {"levelgate": status.to_dict()}}) == status


@pytest.mark.parametrize("name", STORED)
def test_a_field_that_says_nothing_is_not_stored(name: str) -> None:
    told = {other: value for other, value in STORED.items() if other != name}
    assert LevelgateStatus.from_status({"levelgate": told}).to_dict() == told


def test_fields_of_another_version_are_passed_over() -> None:
    assert LevelgateStatus.from_status({"levelgate": {**STORED, "newer": 1}}).to_dict() == STORED


@pytest.mark.parametrize("instance", [None, {}, {"status": None}, {"status": {"levelgate": None}}])
def test_of_an_instance_that_tells_nothing_all_is_empty(instance: dict[str, Any] | None) -> None:
    assert LevelgateStatus.from_instance(instance).to_dict() == {}


def test_the_schema_names_the_same_fields() -> None:
    kind = KindIdentity(GroupKind("g.test", "WebApp"), "v1", namespaced=True)
    crd = custom_resource_definition(kind, {}, definition="webapp")
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert root["properties"]["status"]["properties"]["levelgate"]["properties"].keys() == STORED.keys()
    assert LevelgateStatus.__slots__ == tuple(STORED)


@pytest.mark.parametrize(
    "stored", [STORED["target"], {"revision": 4, "commit": "9c1d2e7f0a1b"}, {"revision": 1, "commit": ""}]
)
def test_a_revision_comes_back_as_it_was_stored(stored: dict[str, Any]) -> None:
    assert list(RevisionAtCommit.from_dict(stored).to_dict().items()) == list(stored.items())


def test_what_is_no_revision_counts_as_none() -> None:
    assert (
        RevisionAtCommit.from_dict({"revision": "x", "commit": None})
        == RevisionAtCommit()
        == RevisionAtCommit.from_dict({})
    )


def test_a_revision_is_written_with_its_short_commit() -> None:
    assert [str(RevisionAtCommit(13, "9c1d2e7f0a1b")), str(RevisionAtCommit(13))] == ["r13 (9c1d2e7)", "r13"]
