"""Static types of expressions."""

from renderer.cel.types import (
    BOOL,
    DYN,
    INT,
    STRING,
    Dyn,
    Record,
    StaticList,
    StaticMap,
    StaticOptional,
    element_of,
    join_types,
)


def test_types_that_differ_join_to_any_value() -> None:
    assert join_types([INT, INT]) == INT
    assert join_types([INT, STRING]) == DYN
    assert join_types([]) == DYN


def test_elements_of_lists_and_maps() -> None:
    assert element_of(StaticList(INT)) == INT
    assert element_of(StaticMap(STRING, BOOL)) == BOOL
    assert element_of(Record({"a": INT, "b": INT})) == INT
    assert element_of(Record({"a": INT}, open=True)) == DYN
    assert element_of(STRING) == DYN


def test_a_type_is_written_as_in_messages() -> None:
    kinds = (INT, StaticList(INT), Record({}), StaticMap(STRING, INT), StaticOptional(INT), Dyn(frozenset({"string"})))
    assert list(map(str, kinds)) == ["int", "list", "map", "map", "optional", "dyn"]
