"""The comparison of two records finds what changed, and says where."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from tests.support.golden.compare import differences
from tests.support.golden.normal import normal, set_of, write_of

PATH = "/api/v1/namespaces/g/configmaps/a"
WRITE = {
    "verb": "PATCH",
    "path": PATH,
    "body": {"data": {"text": "one"}, "status": {"state": "Held", "reason": "Held"}},
}
RECORD: dict[str, Any] = {
    "scenarios": {"create": {"0": {"exit": 0, "writes": [WRITE]}}},
    "commands": {"settled: status": {"exit": 0, "writes": []}},
}


def changed() -> tuple[dict[str, Any], list[Any]]:
    record = deepcopy(RECORD)
    return record, record["scenarios"]["create"]["0"]["writes"]


def test_a_record_is_like_itself() -> None:
    assert differences(RECORD, deepcopy(RECORD)) == []


def test_a_changed_write_is_found_with_its_field() -> None:
    record, writes = changed()
    writes[0]["body"]["data"]["text"] = "two"
    assert differences(RECORD, record) == [f"scenarios > create > 0 > PATCH {PATH} > data > text: is 'two', was 'one'"]


def test_a_missing_and_an_extra_write_are_found() -> None:
    record, writes = changed()
    writes.clear()
    assert differences(RECORD, record) == [f"scenarios > create > 0 > PATCH {PATH}: missing write"]
    assert differences(record, RECORD) == [f"scenarios > create > 0 > PATCH {PATH}: extra write"]


def test_a_changed_exit_code_is_found() -> None:
    record, _ = changed()
    record["commands"]["settled: status"]["exit"] = 3
    assert differences(RECORD, record) == ["commands > settled: status > exit: is 3, was 0"]


def test_times_uids_and_messages_do_not_count() -> None:
    then = {
        "uid": "x",
        "at": "2026-03-04T05:06:07Z",
        "message": "a",
        "data": {"inner": '{"at": "2026-03-04T05:06:07Z"}'},
    }
    now = {
        "uid": "y",
        "at": "2027-03-04T05:06:07Z",
        "message": "b",
        "data": {"inner": '{"at": "2027-03-04T05:06:07Z"}'},
    }
    assert normal(then, {}) == normal(now, {})


def test_of_a_status_the_last_write_counts() -> None:
    writes = [
        write_of("PATCH", f"{PATH}/status?force=true", json.dumps({"status": number}).encode(), {}) for number in (1, 2)
    ]
    assert [write["body"] for write in set_of(writes)] == [{"status": 2}]
