"""Events of the YAML parser become plain values, within limits."""

from contextlib import suppress

import pytest

from renderer.documents.reader import MAX_DEPTH, MAX_PROBLEMS, UnreadableYaml, YamlReader


def roots(text: str) -> list[object]:
    reader = YamlReader("a.yaml", text.encode())
    found = [root.value for root in reader.read_roots()]
    assert reader.problems == []
    return found


def mistake(text: str) -> str:
    reader = YamlReader("a.yaml", text.encode())
    with suppress(UnreadableYaml):
        reader.read_roots()
    return reader.problems[0].message


def test_aliases_share_nothing() -> None:
    (value,) = roots("a: &x {b: [1]}\nc: *x\n")
    assert isinstance(value, dict)
    assert value["a"] == value["c"]
    assert value["a"]["b"] is not value["c"]["b"]


def test_a_merge_gives_way_to_keys_below_it() -> None:
    assert roots("a: &x {size: 1, mode: 1}\nb: {<<: *x, size: 2}\n") == [
        {"a": {"size": 1, "mode": 1}, "b": {"size": 2, "mode": 1}}
    ]
    assert mistake("a: &x {size: 1}\nb: {size: 2, <<: *x}\n") == (
        "'<<' follows 'size', a key of both mappings; put '<<' first in its mapping"
    )


def test_keys_become_text_as_in_kubernetes() -> None:
    assert roots("{1: a, yes: b}") == [{"1": "a", "true": "b"}]
    assert mistake("{1.5: a}") == "the key 1.5 is not text; put the key in quotes"


def test_empty_documents_are_left_out_and_counted() -> None:
    reader = YamlReader("a.yaml", b"---\n---\na: 1\n")
    assert [(root.line, root.ordinal, root.value) for root in reader.read_roots()] == [(3, 1, {"a": 1})]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", "duplicate key 'a' (line 2, column 1; first at line 1); keep one of them"),
        ("[" * (MAX_DEPTH + 1), f"the value is nested deeper than {MAX_DEPTH} levels; use fewer levels"),
        ("a: *x\n", "alias *x has no anchor &x above it in this document; define the anchor before the alias"),
        ("a: &x [*x]\n", "alias *x is inside its own anchor; remove the alias"),
        ("a: !!set {}\n", "tag tag:yaml.org,2002:set is not supported; remove the tag"),
        ("--- a\n", "content on the line of '---', which kubectl would ignore; start the content on the next line"),
    ],
)
def test_a_mistake_says_what_to_do(text: str, message: str) -> None:
    assert mistake(text) == message


def test_aliases_cannot_grow_without_bounds() -> None:
    levels = "".join(
        f"{name}: &{name} [{', '.join(f'*{before}' for _ in range(9))}]\n" for before, name in ("ab", "bc", "cd")
    )
    assert "expand to more than 1,000 values; write the values out" in mistake("a: &a [1]\n" + levels)


def test_reading_ends_after_many_mistakes() -> None:
    reader = YamlReader("a.yaml", "".join(f"k{n}: .nan\n" for n in range(99)).encode())
    with pytest.raises(UnreadableYaml):
        reader.read_roots()
    assert len(reader.problems) == MAX_PROBLEMS
