"""Kinds that a commit defines more than once."""

from renderer.catalog.duplicate_definitions import find_duplicate_definitions
from renderer.catalog.file_content import FileContent, parse_file
from renderer.identity import GroupKind

PAGE = GroupKind("kro.run", "Page")


def definition(file: str, name: str, kind: str = "Page", spec: str = "{}") -> FileContent:
    text = f"""apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {{name: {name}}}
spec: {{schema: {{kind: {kind}, apiVersion: v1, spec: {spec}}}}}
"""
    return parse_file(file, text.encode())


def test_one_definition_of_each_kind_is_no_duplicate() -> None:
    found = find_duplicate_definitions([definition("a.yaml", "a"), definition("b.yaml", "b", "Post")])
    assert (found.places, found.crds, found.problems) == ({}, frozenset(), ())
    assert found.describe(PAGE) == ""


def test_each_place_is_told_all_places() -> None:
    found = find_duplicate_definitions([definition("a.yaml", "a"), definition("b.yaml", "b")])
    assert [(problem.file, problem.message) for problem in found.problems] == [
        (
            file,
            "pages.kro.run is declared at a.yaml:1 and b.yaml:1, so Levelgate ignores all declarations; keep one declaration",
        )
        for file in ("a.yaml", "b.yaml")
    ]
    assert found.crds == {"pages.kro.run"}
    assert found.describe(PAGE) == "is declared at a.yaml:1 and b.yaml:1"


def test_a_definition_that_does_not_compile_counts() -> None:
    broken = definition("b.yaml", "b", spec="{text: nosuch}")
    assert broken.definitions == ()
    assert find_duplicate_definitions([definition("a.yaml", "a"), broken]).places.keys() == {PAGE}


def test_two_kinds_of_one_name_are_one_object() -> None:
    found = find_duplicate_definitions([definition("a.yaml", "x"), definition("b.yaml", "x", "Post")])
    assert found.places.keys() == {PAGE, GroupKind("kro.run", "Post")}
    assert {problem.path for problem in found.problems} == {"metadata.name"}
