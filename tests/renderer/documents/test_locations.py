"""Lines of places in a YAML file."""

import pytest

from renderer.documents.locations import parse_locations

TEXT = b"""a:
  b.c: 1
  list:
  - x: 1
    y: 2
  - z
"q]": 1
---
second: 1
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a", 1),
        ("a.b.c", 2),
        ("a.list[0].y", 5),
        ("a.list[1]", 6),
        ('["q]"]', 7),
        ("a.list[7].x", 3),
        ("a.nosuch.deep", 1),
        ("", 1),
    ],
)
def test_a_path_has_the_line_of_its_nearest_ancestor(path: str, line: int) -> None:
    assert parse_locations(TEXT)[0].find(path).line == line


def test_each_document_has_its_tree() -> None:
    assert [tree.find("second").line for tree in parse_locations(TEXT)] == [1, 9]


def test_broken_yaml_ends_early() -> None:
    (tree,) = parse_locations(b"a: 1\nb: {\n")
    assert tree.find("a").line == 1
