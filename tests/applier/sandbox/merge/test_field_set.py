"""Sets of fields, and how they are read and written."""

from __future__ import annotations

import pytest

from applier.sandbox.merge.field_set import (
    LEAF,
    decode,
    difference,
    encode,
    format_path,
    from_paths,
    intersection,
    iterate_paths,
    union,
)
from applier.sandbox.merge.path_elements import InvalidFieldsError, canonicalize, format_element, item_key, value_key


def test_what_is_read_is_written_again() -> None:
    fields = {"f:a": {}, "f:l": {".": {}, 'k:{"name":"x"}': {".": {}, "f:name": {}}}, "f:s": {'v:"y"': {}}}
    assert encode(decode(fields)) == fields


def test_having_a_field_is_not_having_its_parts() -> None:
    whole, part = decode({"f:a": {}}), decode({"f:a": {"f:b": {}}})
    assert intersection(whole, part) == {}
    assert difference(part, whole) == part
    assert difference(whole, part) == whole
    assert union(whole, part) == {"f:a": {".": {}, "f:b": LEAF}}


def test_outside_leaves_out_the_parts_as_well() -> None:
    fields = decode({"f:spec": {"f:a": {}}, "f:status": {"f:phase": {}}})
    assert difference(fields, from_paths(frozenset({("status",)})), subtrees=True) == {"f:spec": {"f:a": LEAF}}


def test_fields_are_written_in_the_order_of_the_server() -> None:
    keys = ['k:{"port":9,"protocol":"TCP"}', 'k:{"port":80,"protocol":"TCP"}', 'k:{"port":80,"protocol":"UDP"}']
    assert list(encode(dict.fromkeys(reversed(keys), LEAF))) == keys
    assert list(encode(dict.fromkeys(('v:"a"', "v:10", "v:9", "v:true", "i:3"), LEAF))) == [
        "v:9",
        "v:10",
        'v:"a"',
        "v:true",
        "i:3",
    ]


def test_paths_come_level_by_level() -> None:
    fields = decode({"f:a": {"f:x": {}}, "f:b": {}, "f:c": {".": {}, "f:y": {}}})
    assert [format_path(path) for path in iterate_paths(fields)] == [".b", ".c", ".a.x", ".c.y"]


@pytest.mark.parametrize(
    ("sent", "written"),
    [
        ('k:{ "b": 1, "a": "x" }', 'k:{"a":"x","b":1}'),
        ("v:1.0", "v:1"),
        ('v:"<"', 'v:"\\u003c"'),
        ("i:07", "i:7"),
        ("q:new", ""),
    ],
)
def test_keys_are_read_however_they_are_written(sent: str, written: str) -> None:
    assert canonicalize(sent) == written


@pytest.mark.parametrize("key", ["", "f", "name", "k:[]", "k:{", "i:x", "v:nothing"])
def test_other_keys_are_refused(key: str) -> None:
    with pytest.raises(InvalidFieldsError):
        canonicalize(key)


def test_true_is_not_one() -> None:
    assert [value_key(value) for value in (1, True, 1.0, 1.5)] == ["v:1", "v:true", "v:1", "v:1.5"]
    assert item_key(["a"], [1]) != item_key(["a"], [True])


def test_elements_in_messages() -> None:
    keys = ("f:spec", 'k:{"name":"a","port":80}', 'v:"x"', "i:3")
    assert [format_element(key) for key in keys] == [".spec", '[name="a",port=80]', '[="x"]', "[3]"]


def test_content_below_the_field_itself_is_dropped_as_the_server_drops_it() -> None:
    assert encode(decode({"f:a": {".": {"f:b": {}}}})) == {"f:a": {}}
